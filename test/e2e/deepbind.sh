#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Threads of a library that was opened with RTLD_DEEPBIND make no hooked call, and no other thread of the program
# makes one meanwhile. They are sampled from a moment after their birth on, and a sleeping thread notices nothing. They
# begin when the exporter has started, which takes longer beside other work.
# Runs alone: it compares CPU time with clocks.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3
export SPANPROF_PROFILE=always

# Within 1 s of the 4 s for which the processors are busy, the exporter makes the threads start their timers.
processors=$(nproc)
for threads in 1 4 16; do
	busy=$((threads < processors ? threads : processors))
	mkdir "$WORK/$threads"
	run_under "$threads" SPANPROF_OUTPUT_DIR="$WORK/$threads" SPANPROF_STATUS_FILE="$WORK/$threads.status" \
		"$HOSTS/deepbind" "$threads" $((4000 * busy / threads)) "$WORK/$threads.status"
	expect_rc "$threads" 0
	expect_silent "$threads"
	[[ $(value "$threads" interrupted) == 0 ]] || fail "$threads: a sleep ended early"
	report "$WORK/$threads" "$WORK/$threads.json"
	expect "$WORK/$threads.json" "abs(d['total']['ns'] / $(value "$threads" cpu) - 1) < 0.03"
	expect "$WORK/$threads.json" "d['residual']['ns'] < 0.25 * d['total']['ns']"
done
