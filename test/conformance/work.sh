#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The stories with samples at any moment: the right span has them in the profile as well, spans with samples lead
# to it, what is not recorded has none, and nothing is said but what the story expects. An SDK of C, and one of
# C++: the same hooks see the others. The samples of the thread's own timer, while it works, are the same.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash
# shellcheck source=test/common/stories.bash
source test/common/stories.bash

need python3

for sdk in otelc debian; do
	# A signal that a thread of an emulator sends to itself may come late.
	[[ -z ${TEST_EMULATOR:-} ]] || {
		left_out "the emulator takes longer"
		break
	}
	tell_all "$TEST_LIBS/conformance/$sdk/lazy"
done

# Long enough that a wrong label cannot hide in the slack of the comparison.
PIECE=(--work 150)
sdks=(otelc debian)
[[ -n ${TEST_EMULATOR:-} ]] || sdks+=(haproxy33)
for sdk in "${sdks[@]}"; do
	tell "$sdk.works" nested SPANPROF_SAMPLE_RATE=250 "$TEST_LIBS/conformance/$sdk/lazy"
	expect_told "$sdk.works"
done
