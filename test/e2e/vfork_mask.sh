#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A child of vfork() shares the memory of its parent, and has no timer of ours. If the child changes its signal mask
# and dispositions, the parent keeps its handlers and its timer, and is sampled once per period.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3
readonly SIGURG=23 SIGUSR1=10

mkdir "$WORK/profiles"
run_under under SPANPROF_OUTPUT_DIR="$WORK/profiles" SPANPROF_SAMPLE_RATE=250 \
	"$HOSTS/vfork_mask" $SIGURG $SIGUSR1
expect_rc under 8
timers=$(awk '$1 == "timers" { print $2 }' "$WORK/under.out")
((timers == 1 || timers == -1)) || fail "$timers timers for one thread"
[[ $(awk '$1 == "calls" { print $2 }' "$WORK/under.out") == 4 ]] || fail "its handlers: $(result under.out)"
report "$WORK/profiles" "$WORK/report.json"
# At least 320 ms, or more, because a slow machine repeats the work.
expect "$WORK/report.json" "320e6 <= d['total']['ns'] < 1.3 * $(value under cpu)"
