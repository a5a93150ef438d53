#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A span that is never ended labels its thread until it is too old, and no longer.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3
mkdir "$WORK/profiles"
run_under forgetful SPANPROF_OUTPUT_DIR="$WORK/profiles" SPANPROF_MAX_SPAN_AGE=1s \
	SPANPROF_UPLOAD_INTERVAL=200ms "$HOSTS/forgetful" "$WORK/forgetful.err"
expect_rc forgetful 21
report "$WORK/profiles" "$WORK/forgetful.json"
python3 - "$WORK/forgetful.json" <<'EOF'
import json
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    report = json.load(file)
labelled = report["labelled"]["ns"] / 1e6
rest = report["total"]["ns"] / 1e6 - labelled
print("%.0f ms labelled, %.0f ms not" % (labelled, rest))
# 200 ms each, and what the waiting took
sys.exit(labelled < 150 or rest < 150)
EOF
