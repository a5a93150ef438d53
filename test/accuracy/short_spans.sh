#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Roots of 0.2 to 200 ms have the CPU time in profiles that the threads' own clocks say, whatever the program does between
# them, and the profile's total is the CPU time of the process (README.md). Each of the ways has ACCURACY_SECONDS, on a quiet
# machine. In a short run chance is more than the bias that is looked for. Run from the top of the repository.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3
readonly ROOTS=$TEST_BUILD/test/accuracy/roots
readonly SECONDS_EACH=${ACCURACY_SECONDS:-50}
# In standard errors.
readonly ERRORS=2
failed=

# compare PAUSE THREADS RATE
compare()
{
	local pause=$1 threads=$2 rate=$3 kind=roots rc=0
	local name=$pause.$threads.$rate

	# Ticks do not see roots in step with them.
	[[ $pause != grid ]] || kind=grid
	mkdir "$WORK/$name"
	timeout --kill-after=5 $((60 + 2 * SECONDS_EACH)) env LD_PRELOAD="$SO" \
		SPANPROF_PROFILE=always SPANPROF_SAMPLE_RATE="$rate" \
		SPANPROF_OUTPUT_DIR="$WORK/$name" \
		"$ROOTS" "$SECONDS_EACH" "$threads" "$pause" \
		>"$WORK/$name.out" 2>"$WORK/$name.err" </dev/null || rc=$?
	echo "$rc" >"$WORK/$name.rc"
	expect_rc "$name" 24
	report "$WORK/$name" "$WORK/$name.json"
	echo "$pause pauses, $threads threads, $rate Hz:"
	python3 test/accuracy/compare.py "$kind" "$WORK/$name.json" "$WORK/$name.out" \
		$((1000 / rate)) "$ERRORS" || failed+=" $name"
}

for pause in random none usleep grid; do
	for rate in 10 100 250 1000; do
		compare "$pause" 2 "$rate"
	done
	for threads in 1 8 64; do
		compare "$pause" "$threads" 1000
	done
done
[[ -z $failed ]] || fail "beyond the limits:$failed"
echo "short spans: all within the limits"
