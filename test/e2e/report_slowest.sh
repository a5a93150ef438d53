#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# spanprof-report --slowest: causes that were put into requests are named, and no others; and what else may lie in a folder.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3
readonly SLOWEST=$ROOT/test/e2e/report_slowest.py REPORT=$ROOT/build/spanprof-report

for how in exact sampled; do
	mkdir "$WORK/$how"
	python3 "$SLOWEST" make "$WORK/$how" "$how" "$WORK/$how.truth"
	run "$how" "$REPORT" --slowest --json "$WORK/$how"
	expect_rc "$how" 0
	expect_silent "$how"
done
python3 "$SLOWEST" judge "$WORK/exact.out" "$WORK/exact.truth" 95 1 || fail "causes with exact times"
# Each look stands for a time of exponential length, so of waits without an exact sum fewer are beyond chance.
python3 "$SLOWEST" judge "$WORK/sampled.out" "$WORK/sampled.truth" 50 1 || fail "causes by samples alone"

run table "$REPORT" --slowest=3 "$WORK/exact"
expect_rc table 0
grep -q '^280 slow requests of 2 names, 2 profiles, ' "$WORK/table.out" || fail "$(<"$WORK/table.out")"
grep -q '^     277 requests more$' "$WORK/table.out" || fail "$(<"$WORK/table.out")"
grep -q ' span 0*[0-9a-f]*, trace 0*[0-9a-f]*$' "$WORK/table.out" || fail "no ids to go on with"
# The mean of a request is what was made: 20 ms and what was put in.
run names "$REPORT" --slowest=1 --json "$WORK/exact"
expect "$WORK/names.out" '[n for n in d["span_names"] if n["span_name"] == "checkout"][0]["requests"] == 400'
expect "$WORK/names.out" '40e6 < [n for n in d["span_names"] if n["span_name"] == "checkout"][0]["cpu_ns"] < 52e6'

# A pipe would keep the report waiting, and a file of somebody else's is in the way of nothing.
mkfifo "$WORK/exact/pipe.otlp.jsonl"
echo "no JSON" >"$WORK/exact/bad.otlp.jsonl"
: >"$WORK/exact/empty.otlp.jsonl"
run passed "$REPORT" --slowest --json "$WORK/exact"
expect_rc passed 2
expect "$WORK/passed.out" 'd["passed_over"] == 2 and d["slow"] == 280'
grep -q 'pipe.otlp.jsonl: not a regular file' "$WORK/passed.err" || fail "$(<"$WORK/passed.err")"
grep -q 'bad.otlp.jsonl: a line of it is no object in JSON' "$WORK/passed.err" || fail "$(<"$WORK/passed.err")"
# Without the option they are no profiles.
run sums "$REPORT" --json "$WORK/exact"
expect_rc sums 0
expect_silent sums
