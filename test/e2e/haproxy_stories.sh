#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Programs that use haproxytech/opentelemetry-c-wrapper: the right span has the CPU time at any moment
# in every layout that was released, whatever the host does with spans.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3
readonly HAPROXY=$TEST_LIBS/haproxy
readonly CHECK_STORY=$ROOT/test/otelcpp/check.py
# Long enough that a wrong label cannot hide in the slack of the comparison.
readonly PIECE_MS=80
export SPANPROF_SAMPLE_RATE=250

# tell NAME SCOPE RELEASE STORY
tell()
{
	local name=$1 scope=$2 host=$HAPROXY/$3/stories story=$4

	mkdir "$WORK/$name"
	run_under "$name" SPANPROF_OUTPUT_DIR="$WORK/$name" SPANPROF_SPAN_ID_SCOPE="$scope" \
		SPANPROF_SPAN_NAME_SCOPE="$scope" FIXTURE_SPANS="$WORK/$name.spans" \
		OTELC_SPANS_JSON="$WORK/$name.spans" "$host" "$story" "$PIECE_MS"
	expect_rc "$name" 7
	echo "$name"
	python3 "$CHECK_STORY" spans "$WORK/$name.out" "$WORK/$name.spans" "$scope"
	report "$WORK/$name" "$WORK/$name.json"
	python3 "$CHECK_STORY" cpu "$WORK/$name.out" "$WORK/$name.spans" "$WORK/$name.json" "$scope"
}

for story in single nested unrelated elsewhere handed_over remote ends renamed refused tracers; do
	tell "$story" all 3.3 "$story"
	expect_silent "$story"
done
for story in nested elsewhere remote; do
	tell "$story.root" root 3.3 "$story"
done
for release in 1.0 2.2 3.2; do
	tell "$release" all "$release" nested
done

# Spans that interleave: no label from the proof on, one message, and links as ever.
tell event_loop all 3.3 event_loop
[[ $(grep -c 'spanprof\[.*spans interleave' "$WORK/event_loop.err") == 1 ]] || fail "not said once"
# Only the child has something to profile, which begins with its first span.
tell forked all 3.3 forked

# Over a shared opentelemetry-cpp of its own, whose hooks are called too.
export LD_LIBRARY_PATH=$HAPROXY/over_cpp
for story in elsewhere ends renamed; do
	tell "over_cpp.$story" all 3.3 "$story"
	expect_silent "over_cpp.$story"
done
unset LD_LIBRARY_PATH

# What is not recorded is never profiled.
for mode in noop unsampled record_only; do
	mkdir "$WORK/$mode"
	run_under "$mode" SPANPROF_OUTPUT_DIR="$WORK/$mode" FIXTURE_MODE="$mode" \
		"$HAPROXY/3.3/stories" silent "$PIECE_MS"
	expect_rc "$mode" 7
	expect_silent "$mode"
	[[ -z $(profiles_in "$WORK/$mode") ]] || fail "$mode: a profile without a recorded span"
done
