#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The flame graphs of spanprof-report in a real browser, if one is installed: frames and their colours, clicks, keys,
# search, the other views. Names of a profile stay text.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3
readonly REPORT=$TEST_BUILD/spanprof-report PAGE=$ROOT/test/e2e/flame_page.py

python3 "$PAGE" profiles "$WORK"
run all "$REPORT" --flamegraph "$WORK/all.html" "$WORK/a"
run deep "$REPORT" --flamegraph "$WORK/deep.html" "$WORK/deep"
run wall "$REPORT" --type wall --flamegraph "$WORK/wall.html" "$WORK/a"
run diff "$REPORT" --baseline "$WORK/b" --flamegraph "$WORK/diff.html" "$WORK/a"
run few "$REPORT" --baseline "$WORK/fewer" --flamegraph "$WORK/few.html" "$WORK/few"
run evil "$REPORT" --flamegraph "$WORK/evil.html" "$WORK/evil"
run towers "$REPORT" --flamegraph "$WORK/towers.html" "$WORK/towers"
for name in all deep wall diff few evil towers; do
	expect_rc "$name" 0
done
# A profile that the exporter wrote, of a program with known waits.
mkdir "$WORK/waits"
run_under waits SPANPROF_OUTPUT_DIR="$WORK/waits" SPANPROF_OFF_CPU=true SPANPROF_WALL=true "$HOSTS/waits" 5 60
expect_rc waits 0
for type in off_cpu wall; do
	run "$type" "$REPORT" --type "$type" --flamegraph "$WORK/waits.$type.html" "$WORK/waits"
	expect_rc "$type" 0
done
result=0
python3 "$PAGE" look "$WORK" || result=$?
((result != 77)) || skip "there is no chromium"
((result == 0)) || fail "the page is not as it should be"
