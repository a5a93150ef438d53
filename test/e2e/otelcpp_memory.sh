#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Nothing that opentelemetry-cpp gives us is kept, and nothing of it is read outside of its bounds.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need valgrind

mkdir "$WORK/profiles"
for build in debian v1_24 v2_24; do
	for story in nested parents remote destroyed; do
		run_under "$build.$story" SPANPROF_OUTPUT_DIR="$WORK/profiles" \
			OTELC_SPANS_JSON="$WORK/$build.$story.spans" \
			valgrind --quiet --leak-check=full --error-exitcode=9 \
			--errors-for-leak-kinds=definite,indirect --show-leak-kinds=definite,indirect \
			"$TEST_LIBS/otelcpp/$build/stories" "$story" 1
		expect_rc "$build.$story" 0
		# it was our path that was looked at
		grep -q pyroscope.profile.id "$WORK/$build.$story.spans" || fail "no span was recorded"
	done
done
