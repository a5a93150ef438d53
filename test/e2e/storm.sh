#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A host that does everything at once that is known to hang or break profilers, and is struck by
# foreign signals of our number, gets everywhere and leaves nothing behind: at 100 and 1,000 Hz, half
# a minute each; make soak takes ten minutes each.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

readonly SECONDS_EACH=${SOAK_SECONDS:-30}
readonly STORM=$TEST_BUILD/test/storm/storm
readonly PLUGIN=$TEST_BUILD/test/storm/libstorm-plugin.so

# The kernel counts queued signals, and timers as such, by user and user namespace: in one of its own
# the host sees its own alone. Elsewhere others of the user come and go, and only a trend says much.
# One is left: the host's last strike at the background thread, which blocks all signals.
ALONE=(unshare --user --map-root-user)
queued_max=1
if ! "${ALONE[@]}" true 2>/dev/null; then
	ALONE=()
	queued_max=200
fi

value()
{
	awk -v name="$2" '$1 == name { print $2 }' "$WORK/$1.out"
}

# within NAME WHAT MOST
within()
{
	(($(value "$1" "$2") <= $3)) || fail "$1: $(value "$1" "$2") $2 are left"
}

# Each worker got somewhere: the watchdog is content with one round a minute.
beats()
{
	awk '$1 == "beats" { n++; if ($3 == 0) bad = bad " " $2; text = text " " $2 " " $3 }
		END { print "rounds:" text; if (n == 0 || bad != "") { print "none:" bad; exit 1 } }' \
		"$WORK/$1.out" || fail "$1: some got nowhere"
}

for rate in 100 1000; do
	name=at$rate
	mkdir "$WORK/$name"
	rc=0
	timeout --kill-after=5 $((SECONDS_EACH + 120)) "${ALONE[@]}" env LD_PRELOAD="$SO" \
		SPANPROF_PROFILE=always SPANPROF_SAMPLE_RATE=$rate \
		SPANPROF_OUTPUT_DIR="$WORK/$name" "$STORM" "$SECONDS_EACH" "$PLUGIN" "$(kill -l URG)" \
		>"$WORK/$name.out" 2>"$WORK/$name.err" </dev/null || rc=$?
	echo "$rc" >"$WORK/$name.rc"
	[[ $rc == 23 ]] || cat "$WORK/$name.out"
	expect_rc "$name" 23
	beats "$name"
	# The initial thread's.
	within "$name" timers 1
	within "$name" queued "$queued_max"
	within "$name" descriptors 0
	# glibc keeps thread stacks and heaps as it likes; a leak would be one a round.
	within "$name" mappings 40
	profiles=$(profiles_in "$WORK/$name" | wc -l)
	((profiles > 0)) || fail "nothing was profiled"
	echo "storm, $rate Hz, $SECONDS_EACH s: watchdog clean; left: $(value "$name" timers) timers," \
		"$(value "$name" descriptors) descriptors, $(value "$name" mappings) mappings," \
		"$(value "$name" queued) in SigQ; $profiles profiles"
	# What thousands of short processes leave here is not needed.
	rm -rf "${WORK:?}/$name"
done
