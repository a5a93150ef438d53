#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Stacks that the handler copies and the exporter walks later give the same profile.
# Runs alone: it judges shares of CPU time.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3
export SPANPROF_SAMPLE_RATE=250

mkdir "$WORK/copied"
run_under copied SPANPROF_OUTPUT_DIR="$WORK/copied" SPANPROF_UNWIND=snapshot \
	OTELC_SPANS_JSON="$WORK/copied.spans" "$HOSTS/spans" 1800
expect_rc copied 0
expect_silent copied
report "$WORK/copied" "$WORK/copied.json"
python3 "$CHECK" spans "$WORK/copied.json" "$WORK/copied.spans" root
python3 "$CHECK" shares "$WORK/copied.json" "$WORK/copied.out" 5 checkout=checkout+charge search=search

# Whole stacks: none was cut, and none ended early.
expect "$WORK/copied.json" \
	'not any(f["function"] in ("[incomplete]", "[truncated]") for f in d["functions"])'
expect "$WORK/copied.json" \
	'sum(f["total_ns"] for f in d["functions"] if f["function"] == "work_checkout") > 0'

# A value that is none of the three.
run_under wrong SPANPROF_OUTPUT_DIR="$WORK/copied" SPANPROF_UNWIND=frame-pointer "$HOSTS/spans" 100
expect_rc wrong 0
grep -q 'SPANPROF_UNWIND' "$WORK/wrong.err" || fail "no warning about SPANPROF_UNWIND"
