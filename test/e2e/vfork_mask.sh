#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A child of vfork has our memory and no timer of ours: what it does to its signal mask and dispositions takes
# nothing away from its parent, which keeps its handlers, goes on with the timer that it had and is sampled
# once per period.
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
# Of at least 320 ms, as often as a slow machine wants.
expect "$WORK/report.json" "320e6 <= d['total']['ns'] < 1.3 * $(value under cpu)"
