#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Programs that use haproxytech/opentelemetry-c-wrapper: the right span has the CPU time at any moment
# in every layout that was released, whatever the host does with spans.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash
# shellcheck source=test/common/stories.bash
source test/common/stories.bash

need python3
readonly HAPROXY=$TEST_LIBS/haproxy
# Long enough that a wrong label cannot hide in the slack of the comparison.
readonly PIECE_MS=80

# tell NAME SCOPE RELEASE STORY
tell()
{
	local name=$1 scope=$2 host=$HAPROXY/$3/stories story=$4

	tell_under "$name" "$scope" "$host" "$story" "$PIECE_MS"
	expect_rc "$name" 7
	expect_told "$name" "$scope"
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
	expect_unprofiled "$mode" 7 FIXTURE_MODE="$mode" "$HAPROXY/3.3/stories" silent "$PIECE_MS"
done
