#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A host that does everything at once that is known to hang or break profilers, and is struck by
# foreign signals of our number, gets everywhere and leaves nothing behind: at 100 and 1,000 Hz, some
# seconds each; make soak takes ten minutes each.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

readonly SECONDS_EACH=${SPANPROF_SOAK_SECONDS:-6}
readonly STORM=$TEST_BUILD/test/storm/storm
readonly PLUGIN=$TEST_BUILD/test/storm/libstorm-plugin.so

value()
{
	awk -v name="$2" '$1 == name { print $2 }' "$WORK/$1.out"
}

for rate in 100 1000; do
	name=at$rate
	mkdir "$WORK/$name"
	rc=0
	timeout --kill-after=5 $((SECONDS_EACH + 120)) env LD_PRELOAD="$SO" SPANPROF_PROFILE=always \
		SPANPROF_SAMPLE_RATE=$rate SPANPROF_OUTPUT_DIR="$WORK/$name" \
		"$STORM" "$SECONDS_EACH" "$PLUGIN" "$(kill -l URG)" \
		>"$WORK/$name.out" 2>"$WORK/$name.err" </dev/null || rc=$?
	cat "$WORK/$name.out"
	echo "$rc" >"$WORK/$name.rc"
	expect_rc "$name" 23
	(($(value "$name" timers) <= 1)) || fail "$(value "$name" timers) timers for one thread"
	[[ $(value "$name" descriptors) == 0 ]] || fail "$(value "$name" descriptors) descriptors are left"
	# glibc keeps thread stacks and heaps as it likes; a leak would be one a round.
	(($(value "$name" mappings) <= 40)) || fail "$(value "$name" mappings) mappings are left"
	# One for the initial thread's timer; others of this user may come and go.
	(($(value "$name" queued) <= 20)) || fail "$(value "$name" queued) queued signals are left"
	[[ -n $(profiles_in "$WORK/$name") ]] || fail "nothing was profiled"
	# What thousands of short processes leave here is not needed.
	rm -rf "${WORK:?}/$name"
done
