#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The installation by "make install" works in its place and completes its options in bash; "make uninstall" removes
# all of it and nothing else.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

readonly PREFIX=$WORK/usr
mkdir -p "$PREFIX/bin" "$PREFIX/lib"
: >"$PREFIX/bin/other"
: >"$PREFIX/lib/other"
make -s SPANPROF_SKIP_DEPS=1 install PREFIX="$PREFIX" >"$WORK/log"
grep -q "LD_PRELOAD=$PREFIX/lib/spanprof/libspanprof.so" "$PREFIX/share/man/man7/spanprof.7" ||
	fail "spanprof(7) does not know where the object is"
for file in "$PREFIX"/bin/spanprof-*; do
	[[ $(find "$PREFIX/share/man" -name "${file##*/}.[18]" | wc -l) == 1 ]] || fail "no man page of $file"
done

# A second installation, while programs start with the installed files: every name exists all the time, with a
# complete file.
if ! python3 - "$PREFIX" make -s SPANPROF_SKIP_DEPS=1 install PREFIX="$PREFIX" >"$WORK/log" 2>&1 <<'END'; then
import ctypes, os, struct, subprocess, sys

MODIFY, MOVED_FROM, MOVED_TO, CREATE, DELETE = 0x2, 0x40, 0x80, 0x100, 0x200
libc = ctypes.CDLL(None)
watch = libc.inotify_init1(os.O_NONBLOCK)
folder_of = {}
for folder, _, _ in os.walk(sys.argv[1]):
    wd = libc.inotify_add_watch(watch, folder.encode(), MODIFY | MOVED_FROM | MOVED_TO | CREATE | DELETE)
    folder_of[wd] = folder
subprocess.run(sys.argv[2:], check=True)
seen = b""
try:
    while True:
        seen += os.read(watch, 1 << 16)
except BlockingIOError:
    pass
events = {}
order = []
while seen:
    wd, mask, _, size = struct.unpack_from("iIII", seen)
    path = os.path.join(folder_of[wd], seen[16:16 + size].rstrip(b"\0").decode())
    seen = seen[16 + size:]
    if os.path.lexists(path):
        events.setdefault(path, set()).add(mask)
        order.append(os.path.basename(path))
others = {path: sorted(map(hex, masks)) for path, masks in events.items() if masks != {MOVED_TO}}
assert not others, others
assert order.index("spanprof-exporter") < order.index("libspanprof.so"), order
END
	fail "while it is installed again: $(<"$WORK/log")"
fi

mkdir "$WORK/profiles"
[[ $(stat -c %a "$PREFIX/lib/spanprof/libspanprof.so") == 644 && -x $PREFIX/lib/spanprof/spanprof-exporter ]] ||
	fail "the object is to be read, and the exporter to be executed"

run runner "$PREFIX/bin/spanprof-run" --output "$WORK/profiles" -- "$HOSTS/spend" 100
expect_rc runner 7
report "$WORK/profiles" "$WORK/report.json"
expect "$WORK/report.json" 'd["labelled"]["ns"] > 0'
rm "$WORK"/profiles/*
run entrypoint SPANPROF_OUTPUT_DIR="$WORK/profiles" "$PREFIX/bin/spanprof-entrypoint" "$HOSTS/spend" 100
expect_rc entrypoint 7
[[ -n $(profiles_in "$WORK/profiles") ]] || fail "the entrypoint does not find the object"
run doctor SPANPROF_OUTPUT_DIR="$WORK/profiles" OTEL_SERVICE_NAME=x "$PREFIX/bin/spanprof-doctor" -- \
	"$HOSTS/spend" 100
grep -q 'Nothing to change' "$WORK/doctor.out" || fail "the doctor: $(<"$WORK/doctor.out")$(<"$WORK/doctor.err")"
printf '#include <spanprof.h>\nint main(void) { spanprof_label_push("00f067aa0ba902b7", "x"); spanprof_label_pop(); return 0; }' |
	gcc -I"$PREFIX/include" -o "$WORK/label" -x c -
run label "$WORK/label"
expect_rc label 0

# completed WORD...: the completions of bash for the last word
completed()
{
	bash -c '
		source "$1"; shift
		COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
		"$(complete -p "$1" | sed "s/.*-F \([^ ]*\).*/\1/")"
		printf "%s\n" "${COMPREPLY[@]}"' - \
		"$PREFIX/share/bash-completion/completions/$1" "$@" | sort | tr '\n' ' '
}
[[ $(completed spanprof-run --se) == '--server --service ' ]] || fail "options of spanprof-run"
[[ $(completed spanprof-run --service a -- tru) == *'true '* ]] || fail "a command of spanprof-run"
[[ $(completed spanprof-run --rate '') == ' ' ]] || fail "a number of spanprof-run"
[[ $(completed spanprof-report --sp) == '--span --span-name ' ]] || fail "options of spanprof-report"
[[ " $(completed spanprof-doctor '')" == *" $$ "* ]] || fail "processes of spanprof-doctor"

make -s SPANPROF_SKIP_DEPS=1 uninstall PREFIX="$PREFIX" >"$WORK/log"
find "$PREFIX" -type f -printf '%P\n' | sort | diff - <(printf '%s\n' bin/other lib/other) ||
	fail "more or less than what was there before remains"
[[ ! -e $PREFIX/lib/spanprof ]] || fail "our folder remains"
