#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# With something else in the exporter's place, or nothing, the program runs as without us, and one line
# says why there are no profiles: a program that is missing, that may not be executed, of another build
# (an update while the program runs), that ends at once, that hangs, that crashes midway.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

# place NAME [PROGRAM [HOW]]: a folder with the object and that program beside it.
place()
{
	mkdir "$WORK/$1"
	cp "$SO" "$WORK/$1/libspanprof.so"
	[[ -z ${2-} ]] || cp "$2" "$WORK/$1/spanprof-exporter"
	echo "${3-}" >"$WORK/$1/how"
}

# under NAME STATUS [VARIABLE=VALUE]... COMMAND...: with the object of that folder.
under()
{
	local name=$1 status=$2

	shift 2
	run "ran.$name" LD_PRELOAD="$WORK/$name/libspanprof.so" SPANPROF_OUTPUT_DIR="$WORK/$name" "$@"
	expect_rc "ran.$name" "$status"
	[[ -z $(profiles_in "$WORK/$name") ]] || fail "$name: a profile"
}

# one_line NAME TEXT: nothing else of ours.
one_line()
{
	grep 'spanprof\[' "$WORK/ran.$1.err" >"$WORK/$1.lines" || true
	if [[ $(wc -l <"$WORK/$1.lines") != 1 ]] || ! grep -qE ": $2\$" "$WORK/$1.lines"; then
		cat "$WORK/ran.$1.err" >&2
		fail "$1: not the one line"
	fi
}

# not_started NAME REASON: the host stays until there is something on its stderr.
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
# Of root, and without a /proc in which it could see whether the program is root's as well.
if ((EUID == 0)) && unshare --mount true 2>/dev/null; then
	place no_proc "$EXPORTER"
	# nor does the loader find out where the program lies
	under no_proc 0 LD_LIBRARY_PATH="$TEST_LIBS" unshare --mount sh -c 'mount -t tmpfs none /proc && exec "$@"' sh \
		"$HOSTS/leaves" "$WORK/ran.no_proc.err"
	one_line no_proc 'cannot start the exporter .*: there is no /proc in which .*: not profiling this process'
fi
# Named by the variable, which counts more than what lies beside the object.
place named "$EXPORTER"
under named 0 SPANPROF_EXPORTER="$WORK/nowhere/exporter" "$HOSTS/leaves" "$WORK/ran.named.err"
one_line named "cannot start the exporter \($WORK/nowhere/exporter: .+\): not profiling this process"

# It never answers: the end of the host waits as long as it was told to, and not at all.
run plain "$HOSTS/spend" 50
place hangs "$TEST_LIBS/exporter-stub" hangs
under hangs 7 SPANPROF_FLUSH_TIMEOUT=1s "$HOSTS/spend" 50
(($(result ran.hangs.ms) <= $(result plain.ms) + 2500)) || fail "waits for $(result ran.hangs.ms) ms"
cmp "$WORK/plain.out" "$WORK/ran.hangs.out" || fail "another output"
under hangs 7 SPANPROF_FLUSH_TIMEOUT=0 "$HOSTS/spend" 50
(($(result ran.hangs.ms) <= $(result plain.ms) + 700)) || fail "waits for $(result ran.hangs.ms) ms"

# It goes in the middle of the work, which goes on, and so does the next one; and nobody waits at the end.
place crashes "$TEST_LIBS/exporter-stub" crashes
run requests "$HOSTS/requests" 100
under crashes 19 SPANPROF_FLUSH_TIMEOUT=30s "$HOSTS/requests" 100
one_line crashes 'the exporter ended; started again .1 of 3 times., what it had not sent is lost: 0 samples'
(($(result ran.crashes.ms) <= $(result requests.ms) + 2500)) || fail "waits for who is gone"

# One that serves nobody but who started it: forked children have one of their own each.
place refuses "$TEST_LIBS/exporter-stub" refuses
under refuses 12 SPANPROF_FLUSH_TIMEOUT=200ms "$HOSTS/prefork" before
expect_silent ran.refuses
while read -r _ pid; do
	grep -qx "$pid" "$WORK/refuses/served" || fail "nobody serves $pid: $(<"$WORK/refuses/served")"
done <"$WORK/ran.refuses.out"

# A program beside it, as a test of the above.
mkdir "$WORK/well"
run_under well SPANPROF_EXPORTER="$EXPORTER" SPANPROF_OUTPUT_DIR="$WORK/well" "$HOSTS/spend" 50
expect_rc well 7
expect_silent well
[[ -n $(profiles_in "$WORK/well") ]] || fail "no profile with SPANPROF_EXPORTER"
