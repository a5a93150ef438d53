#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A child forked while another thread of its parent is inside dl_iterate_phdr() profiles itself: it
# does not wait for the loader's lock, which nobody holds any more.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3
mkdir "$WORK/profiles"
run_under forks SPANPROF_SAMPLE_RATE=250 SPANPROF_OUTPUT_DIR="$WORK/profiles" \
	SPANPROF_FLUSH_TIMEOUT=9s "$HOSTS/fork_list" 4
expect_rc forks 32
expect_silent forks
children=0
while read -r pid; do
	if compgen -G "$WORK/profiles/*-$pid-*.pb.gz" >/dev/null; then
		children=$((children + 1))
	fi
done <"$WORK/forks.out"
echo "$children of 4 children have a profile"
# With the lock held none has any. A fork that our background thread has held up for too long, while
# it loads its part on a busy machine, leaves a child unprofiled for a reason of its own.
((children >= 1)) || fail "children without a profile"
