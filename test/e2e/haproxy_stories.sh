#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Programs that use haproxytech/opentelemetry-c-wrapper, in the interface of two generations, with its SDK
# inside the library and beside it: the right span has the CPU time at any moment, whatever the host does
# with spans, and the host sees the same results as without us.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash
# shellcheck source=test/common/stories.bash
source test/common/stories.bash

need python3
readonly HAPROXY=$TEST_LIBS/haproxy
# Long enough that a wrong label cannot hide in the slack of the comparison.
readonly PIECE_MS=80

# tell NAME SCOPE GENERATION STORY
tell()
{
	local name=$1 scope=$2 host=$HAPROXY/$3/stories story=$4

	tell_under "$name" "$scope" "$host" "$story" "$PIECE_MS"
	expect_rc "$name" 7
	run "$name.plain" "$host" "$story" 1
	diff <(said "$name.plain") <(said "$name") || fail "$name: the host sees another result"
	expect_told "$name" "$scope"
}

for story in nested remote ends renamed refused tracers; do
	tell "$story" all 3.3 "$story"
	expect_silent "$story"
done
tell 2.2 all 2.2 nested

# Spans that interleave: no label as long as they do, one message, and links as ever.
tell unrelated all 3.3 unrelated
[[ $(grep -c 'spanprof\[.*spans interleave' "$WORK/unrelated.err") == 1 ]] || fail "not said once"
# Only the child has something to profile, which begins with its first span.
tell forked all 3.3 forked

export LD_LIBRARY_PATH=$HAPROXY/shared
tell shared.ends all 3.3 ends
expect_silent shared.ends
unset LD_LIBRARY_PATH

# The first tracers and spans of many threads at once.
for generation in 2.2 3.3; do
	tell_under "crowd.$generation" all SPANPROF_LOG_LEVEL=error "$HAPROXY/$generation/stories" crowd
	expect_rc "crowd.$generation" 7
	spans=$(wc -l <"$WORK/crowd.$generation.spans")
	attributes=$(grep -c '"pyroscope.profile.id"' "$WORK/crowd.$generation.spans")
	((spans == 160 && attributes == spans)) || fail "$generation: $attributes attributes for $spans spans"
done

# What is not recorded is never profiled.
for mode in noop unsampled; do
	expect_unprofiled "$mode" 7 FIXTURE_MODE="$mode" "$HAPROXY/3.3/stories" silent "$PIECE_MS"
done

# What is told beforehand is what is done.
run check build/spanprof-run --check "$HAPROXY/3.3/stories"
expect_rc check 0
