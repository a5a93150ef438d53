#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A child is forked while another thread of its parent is inside dl_iterate_phdr() or dlopen(). The child is profiled:
# nothing of ours in it waits for the loader's lock, which no thread of the child can release. Its exporter reads its
# loaded objects from outside.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

# forks NAME CHILDREN SPANS [OBJECT]: runs the host, with a folder of profiles for each run.
forks()
{
	local name=$1

	shift
	mkdir "$WORK/$name"
	run_under "$name" SPANPROF_SAMPLE_RATE=250 SPANPROF_OUTPUT_DIR="$WORK/$name" \
		SPANPROF_FLUSH_TIMEOUT=9s "$HOSTS/fork_list" "$@"
	expect_rc "$name" 32
	expect_silent "$name"
}

# The processes that have a profile, one per line.
profiled()
{
	while read -r pid; do
		if compgen -G "$WORK/$1/*-$pid-*.pb.gz" >/dev/null; then
			echo "$pid"
		fi
	done <"$WORK/$1.out"
}

for how in open own; do
	forks "reading.$how" 3 "$how"
	[[ $(profiled "reading.$how") == "$(<"$WORK/reading.$how.out")" ]] || fail "reading, $how: children without a profile"
	forks "loading.$how" 3 "$how" "$TEST_LIBS/libburn.so"
	[[ $(profiled "loading.$how") == "$(<"$WORK/loading.$how.out")" ]] || fail "loading, $how: children without a profile"
done
# A process without spans is not profiled.
forks none 2 none "$TEST_LIBS/libburn.so"
[[ -z $(profiled none) ]] || fail "a profile of a child without spans"
