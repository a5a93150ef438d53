#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Two hundred threads that end in every way leave nothing of ours behind: no timers but those of the
# threads that live, no descriptors, no mappings; and their work is in the profile.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3
export SPANPROF_SAMPLE_RATE=250

run plain "$HOSTS/threads"
expect_rc plain 17
mkdir "$WORK/profiles"
run_under under SPANPROF_OUTPUT_DIR="$WORK/profiles" "$HOSTS/threads"
expect_same plain under err rc

[[ $(value under threads) == 200 ]] || fail "$(value under threads) threads, not 200"
[[ $(value plain timers) == -1 ]] || (($(value under timers) <= 1)) ||
	fail "$(value under timers) timers for one living thread"
[[ $(value under descriptors) == 0 ]] || fail "$(value under descriptors) descriptors are left"
(($(value under tasks) <= $(value plain tasks))) || fail "$(value under tasks) tasks at the end"
# glibc keeps and drops thread stacks and arenas as it likes; a leak would be one per thread.
(($(value under mappings) <= $(value plain mappings) + 16)) ||
	fail "$(value under mappings) more mappings after 140 threads"

report "$WORK/profiles" "$WORK/report.json"
for name in returning leaving cancelled detached 'of C11'; do
	# 40 threads of 15 ms; what a thread used after its last tick of 4 to 10 ms is not seen.
	expect "$WORK/report.json" "sum(n['ns'] for n in d['span_names'] if n['span_name'] == '$name') > 250e6"
done
