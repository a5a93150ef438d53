#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The profiles of 1, 2 and 8 busy threads, and of a known mix of spans, agree with the threads' own CPU clocks, at 100
# and at 1,000 Hz. make soak takes a hundred times as long.
# Runs alone: it compares CPU time with clocks to a few per cent.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3
readonly CLOCKS=$TEST_BUILD/test/accuracy/clocks
# CPU time per thread, and shares of the mix: at 100 Hz a percentage point is 3.1 standard deviations after four
# minutes, and 4.4 after eight.
readonly SOAK=${SOAK_SECONDS:-0}
readonly EACH_MS=$((SOAK > 0 ? SOAK * 100 : 600))
readonly MIX_MS=$((SOAK > 0 ? SOAK * 800 : 2400))

# compare KIND RATE MS ARGUMENT...
compare()
{
	local kind=$1 rate=$2 name=$1.$2.$4 rc=0

	mkdir "$WORK/$name"
	timeout --kill-after=5 $((60 + $3 / 50)) env LD_PRELOAD="$SO" \
		SPANPROF_PROFILE=always SPANPROF_SAMPLE_RATE="$rate" \
		SPANPROF_OUTPUT_DIR="$WORK/$name" \
		"$CLOCKS" "$kind" "${@:4}" \
		>"$WORK/$name.out" 2>"$WORK/$name.err" </dev/null || rc=$?
	echo "$rc" >"$WORK/$name.rc"
	expect_rc "$name" 24
	report "$WORK/$name" "$WORK/$name.json"
	python3 test/accuracy/compare.py "$kind" "$WORK/$name.json" "$WORK/$name.out" \
		$((1000 / rate)) || fail "$name"
}

for rate in 100 1000; do
	for threads in 1 2 8; do
		compare threads "$rate" $((EACH_MS * threads)) "$threads" "$EACH_MS"
	done
	compare mix "$rate" "$MIX_MS" "$MIX_MS"
done
echo "accuracy: all within the limits"
