#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# How much of a program's address space and memory the profiler takes; hosts.table has programs with little of them.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

readonly HOST=$HOSTS/outside
# Measured with a ring, snapshots and names of the default sizes: mapped memory, not all of it used.
readonly GROWN_MIB=24

# profiled NAME COMMAND...
profiled()
{
	local name=$1

	shift
	run "$name.plain" "$@"
	expect_rc "$name.plain" 6
	mkdir "$WORK/$name"
	run "$name" SPANPROF_OUTPUT_DIR="$WORK/$name" bash -c 'LD_PRELOAD=$0 exec "$@"' "$SO" "$@"
	expect_same "$name.plain" "$name" err rc
	[[ -n $(profiles_in "$WORK/$name") ]] || fail "$name: no profile"
}

profiled space "$HOST" space
grown=$(awk '{ print int($2 / 1024) }' "$WORK/space.out")
echo "$grown MiB of addresses are ours"
((grown <= GROWN_MIB)) || fail "the address space grows by $grown MiB, more than $GROWN_MIB"
profiled limited "$HOST" limited
(($(awk '{ print $2 }' "$WORK/limited.out") >= 64)) || fail "of 80 MiB there were $(<"$WORK/limited.out")"
