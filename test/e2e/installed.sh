#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What "make install" copies works from there, completes its options in bash, and "make uninstall"
# takes all of it away and nothing else.
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

# completed WORD...: what bash would offer for the last word
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
