#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# If the exporter is missing, or another file is in its place, the program runs as without us, and one line says why
# there are no profiles. The file may not be executable, may be of another build (an update while the program runs),
# may end at once, hang, or crash midway.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

# place NAME [PROGRAM [HOW]]: makes a folder with the object and that program beside it.
place()
{
	mkdir "$WORK/$1"
	cp "$SO" "$WORK/$1/libspanprof.so"
	[[ -z ${2-} ]] || cp "$2" "$WORK/$1/spanprof-exporter"
	echo "${3-}" >"$WORK/$1/how"
}

# under NAME STATUS [VARIABLE=VALUE]... COMMAND...: runs it with the object of that folder.
under()
{
	local name=$1 status=$2

	shift 2
	run "ran.$name" LD_PRELOAD="$WORK/$name/libspanprof.so" SPANPROF_OUTPUT_DIR="$WORK/$name" "$@"
	expect_rc "ran.$name" "$status"
	[[ -z $(profiles_in "$WORK/$name") ]] || fail "$name: a profile"
}

# one_line NAME TEXT: the only line of ours.
one_line()
{
	grep 'spanprof\[' "$WORK/ran.$1.err" >"$WORK/$1.lines" || true
	if [[ $(wc -l <"$WORK/$1.lines") != 1 ]] || ! grep -qE ": $2\$" "$WORK/$1.lines"; then
		cat "$WORK/ran.$1.err" >&2
		fail "$1: not the one line"
	fi
}

# not_started NAME REASON: the host runs until there is a line on its stderr.
not_started()
{
	under "$1" 0 "$HOSTS/leaves" "$WORK/ran.$1.err"
	one_line "$1" "cannot start the exporter \($WORK/$1/spanprof-exporter: $2\): not profiling this process"
}

place missing
not_started missing 'there is no such file'
place mode "$EXPORTER"
chmod 644 "$WORK/mode/spanprof-exporter"
not_started mode 'it may not be executed'
place text "$ROOT/README.md"
chmod 755 "$WORK/text/spanprof-exporter"
not_started text 'it is built for another machine'
place build "$TEST_LIBS/exporter-stub" other
ln -s "$EXPORTER" "$WORK/build/real"
not_started build 'it is of another build than the libspanprof.so of this program; after an update, start the program again'
place ends "$(type -P true)"
not_started ends 'it ended at once'
# The program is run by root, and there is no /proc that could show whether the exporter belongs to root.
if ((EUID == 0)) && unshare --mount true 2>/dev/null; then
	place no_proc "$EXPORTER"
	# nor can the loader find out where the program is
	under no_proc 0 LD_LIBRARY_PATH="$TEST_LIBS" unshare --mount sh -c 'mount -t tmpfs none /proc && exec "$@"' sh \
		"$HOSTS/leaves" "$WORK/ran.no_proc.err"
	one_line no_proc 'cannot start the exporter .*: there is no /proc in which .*: not profiling this process'
fi
# Root must not start a program that another user could replace, at any folder above it, by its real path.
if ((EUID == 0)); then
	mkdir "$WORK/alice" "$WORK/alice/lib"
	chown 65534 "$WORK/alice"
	cp "$SO" "$EXPORTER" "$WORK/alice/lib"
	place theirs
	ln -s "$WORK/alice/lib/spanprof-exporter" "$WORK/theirs"
	not_started theirs "another user than root could change it or one of its folders"
	# A volume to which everybody may write, mounted here so that nobody can.
	mkdir -m 777 "$WORK/volume"
	chmod 777 "$WORK/volume"
	cp "$SO" "$EXPORTER" "$WORK/volume"
	chown -R 65534 "$WORK/volume"
	for options in bind,ro bind; do
		mkdir "$WORK/$options.d"
		# shellcheck disable=SC2016
		run "$options" unshare -m bash -c 'mount --bind "$1" "$1" && mount -o "remount,$2" "$1" &&
			exec env LD_PRELOAD="$1/libspanprof.so" SPANPROF_OUTPUT_DIR="$3" "${@:4}"' \
			mounted "$WORK/volume" "$options" "$WORK/$options.d" "$HOSTS/spend" 50
		expect_rc "$options" 7
	done
	[[ -n $(profiles_in "$WORK/bind,ro.d") ]] || fail "read-only: $(<"$WORK/bind,ro.err")"
	[[ -z $(profiles_in "$WORK/bind.d") ]] || fail "an exporter is executed from where everybody may put one"
fi

# The exporter never answers: the end of the host waits as long as configured, or not at all.
run plain "$HOSTS/spend" 50
place hangs "$TEST_LIBS/exporter-stub" hangs
under hangs 7 SPANPROF_FLUSH_TIMEOUT=1s "$HOSTS/spend" 50
(($(result ran.hangs.ms) <= $(result plain.ms) + 2500)) || fail "waits for $(result ran.hangs.ms) ms"
cmp "$WORK/plain.out" "$WORK/ran.hangs.out" || fail "another output"
under hangs 7 SPANPROF_FLUSH_TIMEOUT=0 "$HOSTS/spend" 50
(($(result ran.hangs.ms) <= $(result plain.ms) + 700)) || fail "waits for $(result ran.hangs.ms) ms"

# Each exporter ends while the host works. The host works on, and at its end does not wait.
place crashes "$TEST_LIBS/exporter-stub" crashes
run requests "$HOSTS/requests" 100
under crashes 19 SPANPROF_FLUSH_TIMEOUT=30s "$HOSTS/requests" 100
one_line crashes 'the exporter ended; started again .1 of 3 times., what it had not sent is lost: 0 samples'
(($(result ran.crashes.ms) <= $(result requests.ms) + 2500)) || fail "waits for who is gone"

# An exporter that serves only the process that started it: each forked child gets its own.
place refuses "$TEST_LIBS/exporter-stub" refuses
under refuses 12 SPANPROF_FLUSH_TIMEOUT=200ms "$HOSTS/prefork" before
expect_silent ran.refuses
while read -r _ pid; do
	grep -qx "$pid" "$WORK/refuses/served" || fail "nobody serves $pid: $(<"$WORK/refuses/served")"
done <"$WORK/ran.refuses.out"

# The right exporter, to check this test itself; no variable of the environment can name another one.
printf '#!/bin/sh\n: >"%s"\n' "$WORK/executed" >"$WORK/other"
chmod 755 "$WORK/other"
mkdir "$WORK/well"
run_under well SPANPROF_EXPORTER="$WORK/other" PYROSCOPE_EXPORTER="$WORK/other" SPANPROF_OUTPUT_DIR="$WORK/well" \
	"$HOSTS/spend" 50
expect_rc well 7
grep -q 'SPANPROF_EXPORTER is not a variable of spanprof' "$WORK/well.err" || fail "$(<"$WORK/well.err")"
[[ $(wc -l <"$WORK/well.err") == 1 ]] || fail "$(<"$WORK/well.err")"
[[ -n $(profiles_in "$WORK/well") ]] || fail "no profile"
[[ ! -e $WORK/executed ]] || fail "the environment has chosen what is executed"
