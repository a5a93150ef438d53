#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Threads that use a stack of 16 KiB to its end get no signal of ours, whether they set a mask that blocks
# every signal, were born with it, or block none: the kernel would find no room for its frame. On a stack
# of 64 KiB they get one, and a sample without frames where only the kernel's frame has room.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

export SPANPROF_SAMPLE_RATE=250

for how in own born open larger; do
	mkdir "$WORK/$how"
	run "$how.plain" "$HOSTS/small_stack" "$how"
	expect_rc "$how.plain" 13
	run_under "$how" SPANPROF_OUTPUT_DIR="$WORK/$how" "$HOSTS/small_stack" "$how"
	sed -i '/spanprof\[.*: \(.*threads\? had no timer: .* stack is too small\|.*samples\?\b\)/d' "$WORK/$how.err"
	expect_same "$how.plain" "$how" out err rc
	# it was profiled
	compgen -G "$WORK/$how/*" >/dev/null || fail "$how: no profile"
done
