#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Compares the standard error of a span name's time in reports of spanprof-report with samples that are drawn at
# random.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3
python3 test/e2e/report_chance.py "$TEST_BUILD/spanprof-report" "$WORK"
