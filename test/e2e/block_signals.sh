#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A host that blocks every signal in every thread and waits for all of them gets only those that it
# was sent: the sampling signal is not among them, whichever way it waits.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3
export SPANPROF_SAMPLE_RATE=250

for how in ppoll sigwait sigwaitinfo sigtimedwait signalfd; do
	mkdir "$WORK/$how"
	run "$how.plain" "$HOSTS/blocked" "$how"
	expect_rc "$how.plain" 13
	run_under "$how" SPANPROF_OUTPUT_DIR="$WORK/$how" "$HOSTS/blocked" "$how"
	expect_same "$how.plain" "$how" out err rc
done
