#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The scripts of a flame graph's page in node: names, stacks in each view, sums, searches, comparisons, lists.
# flame_page.sh tests the same page in a browser, if there is one.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3 node
readonly REPORT=$TEST_BUILD/spanprof-report PAGE=$ROOT/test/e2e/flame_page.py

python3 "$PAGE" profiles "$WORK"
python3 "$PAGE" names >"$WORK/names.json"
run all "$REPORT" --flamegraph "$WORK/all.html" "$WORK/a"
run deep "$REPORT" --flamegraph "$WORK/deep.html" "$WORK/deep"
run diff "$REPORT" --baseline "$WORK/b" --flamegraph "$WORK/diff.html" "$WORK/a"
run few "$REPORT" --baseline "$WORK/fewer" --flamegraph "$WORK/few.html" "$WORK/few"
run evil "$REPORT" --flamegraph "$WORK/evil.html" "$WORK/evil"
run towers "$REPORT" --flamegraph "$WORK/towers.html" "$WORK/towers"
for name in all deep diff few evil towers; do
	expect_rc "$name" 0
done
node test/e2e/page_logic.js "$WORK"
