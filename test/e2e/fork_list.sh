#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A child forked while another thread of its parent is inside dl_iterate_phdr() profiles itself: it
# does not wait for the loader's lock, which nobody holds any more. One forked inside dlopen() does
# without a profile and runs on; it says so, once, where one would have begun.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3

# forks NAME CHILDREN SPANS [OBJECT]: runs the host, with a folder of profiles per run.
forks()
{
	local name=$1

	shift
	mkdir "$WORK/$name"
	run_under "$name" SPANPROF_SAMPLE_RATE=250 SPANPROF_OUTPUT_DIR="$WORK/$name" \
		SPANPROF_FLUSH_TIMEOUT=9s "$HOSTS/fork_list" "$@"
	expect_rc "$name" 32
}

# The processes that said why they have no profile, a line each.
torn()
{
	sed -n 's/^spanprof\[\([0-9]*\)\]: .*forked in the middle of .*: not profiling this process$/\1/p' \
		"$WORK/$1.err" | sort
}

# told_once NAME: each child did, once, and nobody said anything else.
told_once()
{
	[[ $(torn "$1") == "$(sort "$WORK/$1.out")" ]] || {
		cat "$WORK/$1.err" >&2
		fail "$1: not one line of each child"
	}
	[[ $(grep -c 'spanprof\[' "$WORK/$1.err") == $(wc -l <"$WORK/$1.out") ]] ||
		fail "$1: other messages on stderr"
}

forks reading 4 open
children=0
while read -r pid; do
	if compgen -G "$WORK/reading/*-$pid-*.pb.gz" >/dev/null; then
		children=$((children + 1))
	fi
done <"$WORK/reading.out"
echo "$children of 4 children have a profile"
# With the lock held none has any. A fork that our background thread has held up for too long, while
# it loads its part on a busy machine, leaves a child unprofiled, which says so.
((children >= 1)) || fail "children without a profile"
(($(torn reading | wc -l) <= 4 - children)) || fail "a child with a profile said that it has none"

forks open 2 open "$TEST_LIBS/libburn.so" libspanprof-export.so
told_once open
forks own 2 own "$TEST_LIBS/libburn.so" libspanprof-export.so
told_once own
forks none 2 none "$TEST_LIBS/libburn.so" libspanprof-export.so
expect_silent none
for run in open own none; do
	while read -r pid; do
		! compgen -G "$WORK/$run/*-$pid-*.pb.gz" >/dev/null || fail "$run: a profile of process $pid"
	done <"$WORK/$run.out"
done
