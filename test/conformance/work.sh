#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The stories with samples at random moments: the profile has each sample under the right span, spans with samples
# link to the profile, unrecorded spans have no samples, and the profiler prints only messages that the story expects.
# The test uses one C SDK and one C++ SDK, because the other SDKs use the same hooks. The samples of the thread's own
# timer, while the thread works, must agree.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash
# shellcheck source=test/common/stories.bash
source test/common/stories.bash

need python3

for sdk in otelc debian; do
	# In an emulator, a signal that a thread sends to itself may come late.
	[[ -z ${TEST_EMULATOR:-} ]] || {
		left_out "the emulator takes longer"
		break
	}
	tell_all "$TEST_LIBS/conformance/$sdk/lazy"
done

# Long enough that a wrong label exceeds the slack of the comparison.
PIECE=(--work 150)
sdks=(otelc debian)
[[ -n ${TEST_EMULATOR:-} ]] || sdks+=(haproxy33)
for sdk in "${sdks[@]}"; do
	tell "$sdk.works" nested SPANPROF_SAMPLE_RATE=250 "$TEST_LIBS/conformance/$sdk/lazy"
	expect_told "$sdk.works"
done
