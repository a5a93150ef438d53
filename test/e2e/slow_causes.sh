#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Slow requests with known causes, from the program to the sentence: spanprof-report --slowest names what the program did
# on purpose, by the program's own clocks, and does not know the rest.
# Runs alone: it judges how long requests take, and what they wait for.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3
readonly JUDGE=$ROOT/test/e2e/slow_causes.py REPORT=$TEST_BUILD/spanprof-report

mkdir "$WORK/folder" "$WORK/cpu"
run_under causes SPANPROF_OUTPUT_DIR="$WORK/folder" OTELC_SPANS_JSON="$WORK/spans" OTEL_SERVICE_NAME=shop \
	SPANPROF_OFF_CPU=true SPANPROF_SPAN_TIMES=true SPANPROF_UPLOAD_INTERVAL=5s SPANPROF_SLOW=1ms "$HOSTS/causes"
expect_rc causes 0
expect_silent causes
"$REPORT" --slowest --json "$WORK/folder" >"$WORK/report.json"
# Of 150 ms there are seven looks on the average, and by chance too few of them in a few waits.
python3 "$JUDGE" "$WORK/spans" "$WORK/report.json" 90 1 || fail "causes"
expect "$WORK/report.json" '[n for n in d["span_names"] if n["span_name"] == "checkout"][0]["requests"] == 3 * 175'

# Without waits, times alone say that it waited, and the sentence which variable shows for what.
run_under half SPANPROF_OUTPUT_DIR="$WORK/cpu" OTEL_SERVICE_NAME=shop SPANPROF_SPAN_TIMES=true SPANPROF_SLOW=1ms \
	"$HOSTS/causes" 35
expect_rc half 0
"$REPORT" --slowest "$WORK/cpu" >"$WORK/half.table"
grep -q 'off the CPU; the profiles do not say what it waited for: there is no profile of waits (SPANPROF_OFF_CPU=true)$' \
	"$WORK/half.table" || fail "$(<"$WORK/half.table")"
