#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Programs with small stacks and little address space: none of theirs is used up by us, and they are
# profiled.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

readonly HOST=$HOSTS/outside
# Measured with a ring, snapshots and names of the default sizes: mapped, not touched.
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

# limit OPTION VALUE: the host of one thread after the other, below "ulimit".
limit()
{
	# shellcheck disable=SC2016
	profiled "limit$1$2" bash -c 'ulimit "$0" "$1"; exec "$2" threads 10' "$1" "$2" "$HOST"
}

# Of a thread's stack, in KiB: what libraries of ours had in each thread did not fit.
for kib in 64 96 128 160; do
	limit -s "$kib"
done
profiled default "$HOST" small_default 10
# Of a process's addresses, in KiB.
for kib in 190000 195000 200000; do
	limit -v "$kib"
done

profiled space "$HOST" space
grown=$(awk '{ print int($2 / 1024) }' "$WORK/space.out")
echo "$grown MiB of addresses are ours"
((grown <= GROWN_MIB)) || fail "the address space grows by $grown MiB, more than $GROWN_MIB"
profiled limited "$HOST" limited
(($(awk '{ print $2 }' "$WORK/limited.out") >= 64)) || fail "of 80 MiB there were $(<"$WORK/limited.out")"
