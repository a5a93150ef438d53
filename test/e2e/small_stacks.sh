#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Threads that block every signal and use a stack of 16 KiB to its end get no signal of ours, whether
# they set that mask or were born with it: the kernel would find no room for its frame.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

export SPANPROF_SAMPLE_RATE=250

for how in own born; do
	mkdir "$WORK/$how"
	run "$how.plain" "$HOSTS/small_stack" "$how"
	expect_rc "$how.plain" 13
	run_under "$how" SPANPROF_OUTPUT_DIR="$WORK/$how" "$HOSTS/small_stack" "$how"
	expect_same "$how.plain" "$how" out err rc
	# it was profiled
	compgen -G "$WORK/$how/*" >/dev/null || fail "$how: no profile"
done
