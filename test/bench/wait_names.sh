#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Waiting time by span name (SPANPROF_OFF_CPU) beside the clocks of the program itself, for spans of 50 us to 100 ms.
# Leaves a table in build/test/bench/wait_names.md, and fails where a sum is further off than 2 % and what chance may
# add: three standard errors of so many looks. BENCH_SECONDS=n watches each row for another time than 20 s.
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
