#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Compares waiting time by span name (SPANPROF_OFF_CPU) with the clocks of the program itself, for spans of 50 us to
# 100 ms. Writes a table to build/test/bench/wait_names.md, and fails if a sum is off by more than 2 % and the error
# by chance: three standard errors for that number of looks. BENCH_SECONDS=n observes each row for n seconds instead
# of 20.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=test/bench/lib.bash
source test/bench/lib.bash

readonly SECONDS_EACH=${BENCH_SECONDS:-20}

# row THREADS alone|mixed
row()
{
	rm -rf "$WORK/profiles"
	LD_PRELOAD=$OBJECT SPANPROF_OFF_CPU=true SPANPROF_OUTPUT_DIR=$WORK/profiles SPANPROF_FLUSH_TIMEOUT=20s \
		"$BENCH/wait_names" "$1" "$2" "$SECONDS_EACH" >"$WORK/truth"
	build/spanprof-report --json --type off_cpu "$WORK/profiles" >"$WORK/report"
	python3 test/bench/wait_names.py "$1, $2" "$WORK/truth" "$WORK/report"
}

{
	echo '| threads | 50 us | 1 ms | 2 ms | 5 ms | 10 ms | 100 ms | waits ended by a signal |'
	echo '|---|---|---|---|---|---|---|---|'
} >"$WORK/table"
bad=0
for threads in 6 24 200 1000; do
	for how in alone mixed; do
		row "$threads" "$how" >>"$WORK/table" || bad=1
	done
done
cp "$WORK/table" "$BENCH/wait_names.md"
cat "$BENCH/wait_names.md"
exit "$bad"
