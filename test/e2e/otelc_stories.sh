#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Programs that use otap-labs/opentelemetry-c: the right span has the CPU time at any moment, whatever
# the host does with spans and contexts, and however the SDK was linked or loaded.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3
readonly OTELC=$TEST_LIBS/otelc
readonly CHECK_STORY=$ROOT/test/otelcpp/check.py
# Long enough that a wrong label cannot hide in the slack of the comparison.
readonly PIECE_MS=120
export SPANPROF_SAMPLE_RATE=250

# tell NAME SCOPE COMMAND...
tell()
{
	local name=$1 scope=$2

	shift 2
	mkdir "$WORK/$name"
	run_under "$name" SPANPROF_OUTPUT_DIR="$WORK/$name" SPANPROF_SPAN_ID_SCOPE="$scope" \
		SPANPROF_SPAN_NAME_SCOPE="$scope" FIXTURE_SPANS="$WORK/$name.spans" "$@"
	expect_rc "$name" 7
	echo "$name"
	python3 "$CHECK_STORY" spans "$WORK/$name.out" "$WORK/$name.spans" "$scope"
	report "$WORK/$name" "$WORK/$name.json"
	python3 "$CHECK_STORY" cpu "$WORK/$name.out" "$WORK/$name.spans" "$WORK/$name.json" "$scope"
}

for story in single nested unrelated elsewhere handed_over remote ambient scopes ends refused \
	own_attribute renamed shutdown_between; do
	tell "$story" all "$OTELC/lazy" "$story" "$PIECE_MS"
	expect_silent "$story"
done
# Deeper than our own stack is; the innermost that fits stands for those that do not.
tell full_stack all "$OTELC/lazy" full_stack "$PIECE_MS"
# Nobody's from the moment on that proves it, and said once; the attributes go on.
tell event_loop all "$OTELC/lazy" event_loop "$PIECE_MS"
[[ $(grep -c 'spanprof\[.*SPANPROF_ACTIVE_SPAN' "$WORK/event_loop.err") == 1 ]] ||
	fail "interleaving was not said once"
for story in nested elsewhere remote ambient renamed; do
	tell "$story.root" root "$OTELC/lazy" "$story" "$PIECE_MS"
done

for mode in now noplt; do
	tell "$mode" all "$OTELC/$mode" nested "$PIECE_MS"
	tell "$mode.scopes" all "$OTELC/$mode" scopes "$PIECE_MS"
done
for mode in local global; do
	tell "$mode" all "$OTELC/opener" "$OTELC/libstories.so" "$mode" nested "$PIECE_MS"
	tell "$mode.scopes" all "$OTELC/opener" "$OTELC/libstories.so" "$mode" scopes "$PIECE_MS"
done

# What is not recorded is never profiled.
nothing()
{
	local name=$1

	shift
	mkdir "$WORK/$name"
	run_under "$name" SPANPROF_OUTPUT_DIR="$WORK/$name" "$@"
	expect_rc "$name" 7
	expect_silent "$name"
	[[ -z $(profiles_in "$WORK/$name") ]] || fail "$name: a profile without a recorded span"
}
nothing noop FIXTURE_MODE=noop "$OTELC/lazy" silent "$PIECE_MS"
nothing unsampled FIXTURE_MODE=unsampled "$OTELC/lazy" silent "$PIECE_MS"
nothing shut_down "$OTELC/lazy" shutdown_first "$PIECE_MS"
