#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A host in any state does not notice the start of the exporter's process. That process begins with nothing of the host's.
# A program that is linked with our files stands for the host.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

STAND_IN=$TEST_LIBS/exporter-stand-in
cat >"$WORK/wanted" <<END
fd 0 /dev/null
fd 1 /dev/null
fd 2 /dev/null
fd 3 region
blocked 0
not default 0
death of parent 0
name spanprof-exporter
own session 1
own pid 1
folder $PWD
environment SEEN
environment SPANPROF_LOG=debug
END

# starter NAME LAUNCHER... -- CASE: the host ends well, and NAME.seen has the stand-in's observations.
starter()
{
	local name=$1
	local -a launcher=()

	shift
	while [[ $1 != -- ]]; do
		launcher+=("$1")
		shift
	done
	run "$name" "${launcher[@]}" "$HOSTS/starter" "$STAND_IN" "$2" "$WORK/$name.seen"
	[[ $(result "$name.rc") == 0 ]] || {
		cat "$WORK/$name.out" "$WORK/$name.err" >&2
		fail "$name: exit status $(result "$name.rc")"
	}
}

expect_wanted()
{
	diff "$WORK/wanted" "$WORK/$1.seen" >&2 || fail "$1: the program began with something else"
}

# An emulator cannot execute a program of the emulated processor, so the stand-in is a program for this machine.
if [[ -n ${TEST_EMULATOR:-} ]]; then
	STAND_IN=$ROOT/build/test/exporter-stand-in
	starter emulated -- emulated
	((EUID == 0)) || skip "pid 1 needs root; the rest passed"
	starter emulated_init -- emulated_init
	exit 0
fi

for case in plain kept ignored parent_death crowded same_number thread forked few_files filtered; do
	starter "$case" -- "$case"
	expect_wanted "$case"
done
for case in missing not_executable no_memory kill_exporter kill_keeper host_ends ended reused \
	filtered_more filtered_wait exec; do
	starter "$case" -- "$case"
done

# As after a fork, and so with valgrind's own descriptors.
if command -v valgrind >/dev/null; then
	starter valgrind valgrind --quiet --error-exitcode=9 -- emulated
else
	left_out "valgrind is not installed"
fi

((EUID == 0)) || skip "pid 1, unshared namespaces and another user need root; the rest passed"
starter no_processes -- no_processes
starter unshared -- unshared
# --mount-proc first mounts at the root, which has to be a mount point; in a chroot it may be none.
unshare -pf --mount-proc true 2>"$WORK/unshare.err" || skip "$(<"$WORK/unshare.err"); the rest passed"
starter init unshare -pf --mount-proc -- init
expect_wanted init
if command -v valgrind >/dev/null; then
	starter valgrind_init valgrind --quiet --error-exitcode=9 -- emulated_init
fi
