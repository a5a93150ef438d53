#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Roots that begin at each tick of the kernel and are shorter have hardly a sample. The profiler measures a random few of
# them, so their names have their CPU time all the same, and the total of the profile is that of the process.
# Runs alone: a profile ends when the program has used its time, and other work hides the tick.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3
readonly ROOTS=$TEST_BUILD/test/accuracy/roots

# roots NAME VARIABLE...: eight seconds of roots on the grid of the tick; the report is NAME.json, the clocks NAME.out
roots()
{
	mkdir "$WORK/$1"
	run_under "$1" SPANPROF_PROFILE=always SPANPROF_OUTPUT_DIR="$WORK/$1" SPANPROF_UPLOAD_INTERVAL=4s "${@:2}" \
		"$ROOTS" 8 2 grid
	expect_rc "$1" 24
	report "$WORK/$1" "$WORK/$1.json"
	python3 test/accuracy/compare.py grid "$WORK/$1.json" "$WORK/$1.out" 10 2 || fail "$1: the total"
}

# names NAME: the CPU time of each name that is shorter than a tick, as a share of what the program's clocks say
names()
{
	python3 - "$WORK/$1.json" "$WORK/$1.out" <<-'END'
		import json, sys

		got = {n["span_name"]: n["ns"] for n in json.load(open(sys.argv[1]))["span_names"]}
		for line in open(sys.argv[2]):
		    word = line.split()
		    if word[0] == "cpu" and word[1] in ("0.2ms", "0.5ms", "1ms", "2ms"):
		        print(word[1], int(100 * got.get(word[1], 0) / int(word[2])))
	END
}

# In one interval, so that chance does not explain what samples lack.
roots measured SPANPROF_LOG_LEVEL=info SPANPROF_UPLOAD_INTERVAL=12s
grep -q 'they run in step with the kernel.s timer interrupt' "$WORK/measured.err" || fail "no name is told: $(<"$WORK/measured.err")"
while read -r name percent; do
	((percent >= 85 && percent <= 115)) || fail "$name: $percent % of its CPU time"
done < <(names measured)

roots unmeasured SPANPROF_MEASURE_ROOTS=false
sum=0
while read -r name percent; do
	((sum += percent)) || true
done < <(names unmeasured)
((sum < 340)) || echo "note: samples alone had the time of short roots as well: $(names unmeasured | xargs)"
