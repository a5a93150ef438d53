#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A span that never ends labels its thread until it is too old, and no longer.
# Runs alone: it judges for which part of a run a span is too old.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3
mkdir "$WORK/profiles"
run_under forgetful SPANPROF_OUTPUT_DIR="$WORK/profiles" SPANPROF_MAX_SPAN_AGE=2s \
	SPANPROF_UPLOAD_INTERVAL=200ms "$HOSTS/forgetful" "$WORK/forgetful.err" 2000
expect_rc forgetful 21
report "$WORK/profiles" "$WORK/forgetful.json"
python3 - "$WORK/forgetful.json" "$(result forgetful.out)" <<'EOF'
import json
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    report = json.load(file)
labelled = report["labelled"]["ns"] / 1e6
rest = report["total"]["ns"] / 1e6 - labelled
# The time that the span used while it was certainly young: 200 ms, or less if it got no processor.
young, after = (float(word) for word in sys.argv[2].split())
print("%.0f ms labelled, %.0f ms young; %.0f ms not, %.0f ms aged" % (labelled, young, rest, after))
# The rest is longer, by the CPU time of the waiting.
sys.exit(young <= 0 or labelled < 0.75 * young - 10 or rest < 0.75 * after)
EOF
