#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The other builds of opentelemetry-cpp: ABI version 2, the standard library's smart pointers, layouts
# since 1.24, and libraries that do not let their functions be interposed. And one that we cannot know.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash
# shellcheck source=test/common/stories.bash
source test/common/stories.bash

need python3
readonly PIECE_MS=80

for build in v1_stl17 v1_stl14 v2_nostd v2_stl17 bsymbolic v1_24 v2_24 nortti quiet quiet_bsymbolic; do
	stories=(parents own_storage own_attributes)
	# The matrix tells these of the other builds.
	[[ $build != nortti && $build != quiet* ]] || stories+=(remote destroyed renamed)
	for story in "${stories[@]}"; do
		name=$build.$story
		tell_under "$name" all "$TEST_LIBS/otelcpp/$build/stories" "$story" "$PIECE_MS"
		expect_rc "$name" 0
		expect_silent "$name"
		expect_told "$name" all
	done
	# what is not recorded is passed through
	expect_unprofiled "$build.unsampled" 0 "$TEST_LIBS/otelcpp/$build/stories" unsampled 1
done

# All threads wait for the one that looks for the classes at the first start, but no longer than they may: an
# emulator takes longer for that look.
for i in {1..10}; do
	[[ -z ${TEST_EMULATOR:-} ]] || {
		left_out "the emulator takes longer"
		break
	}
	tell_under "at_once.$i" all "$TEST_LIBS/otelcpp/quiet/stories" at_once 1
	expect_rc "at_once.$i" 0
	python3 "$CHECK_STORY" spans "$WORK/at_once.$i.out" "$WORK/at_once.$i.spans" all
done

# Objects that are not laid out as we know them are left alone, every call arrives as it was made, and
# that there will be no labels is said once.
run stranger "$TEST_LIBS/otelcpp/stranger"
run_under stranger.under SPANPROF_OUTPUT_DIR="$WORK" "$TEST_LIBS/otelcpp/stranger"
expect_rc stranger.under 0
expect_same stranger stranger.under out
[[ $(grep -c . "$WORK/stranger.under.err") == 1 ]] || fail "not one message: $(<"$WORK/stranger.under.err")"
grep 'opentelemetry-cpp, ABI v1: .*not understood: its spans are not profiled' \
	"$WORK/stranger.under.err" >/dev/null || fail "not told: $(<"$WORK/stranger.under.err")"
grep -q '^start 1 name 1 1 1$' "$WORK/stranger.out" || fail "the host tells nothing"
[[ -z $(profiles_in "$WORK") ]] || fail "an unknown SDK was profiled"
