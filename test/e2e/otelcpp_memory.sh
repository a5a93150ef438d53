#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# We keep no object that opentelemetry-cpp gives us, and read none outside of its bounds.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need valgrind

for build in debian v1_24 v2_24; do
	for story in 'started beside an active span' 'remote parent' 'attached remote span' 'held by its scope'; do
		name="$build.${story// /_}"
		mkdir "$WORK/$name"
		run_under "$name" SPANPROF_OUTPUT_DIR="$WORK/$name" valgrind --quiet --leak-check=full --error-exitcode=9 \
			--errors-for-leak-kinds=definite,indirect --show-leak-kinds=definite,indirect \
			"$TEST_LIBS/conformance/$build/lazy" --story "$story" "$WORK/$name"
		expect_rc "$name" 7
		# the span went through our hooks
		grep -q pyroscope.profile.id "$WORK/$name/spans" || fail "no span was recorded"
	done
done
