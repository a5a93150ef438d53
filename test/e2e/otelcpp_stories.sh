#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Programs that use opentelemetry-cpp itself: the right span has the CPU time at any moment, whatever
# the host does with spans and scopes, and the SDK exports what it exports without us.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash
# shellcheck source=test/common/stories.bash
source test/common/stories.bash

need python3
readonly STORIES=$TEST_LIBS/otelcpp/debian/stories
# Long enough that a wrong label cannot hide in the slack of the comparison.
readonly PIECE_MS=120

# tell STORY SCOPE
tell()
{
	local story=$1 scope=$2 name=$1.$2

	tell_under "$name" "$scope" "$STORIES" "$story" "$PIECE_MS"
	expect_rc "$name" 0
	if [[ $story == unattached ]]; then
		[[ $(grep -c 'spanprof\[.*: spans interleave' "$WORK/$name.err") == 1 ]] ||
			fail "$name: not said once that spans interleave"
	else
		expect_silent "$name"
	fi
	expect_told "$name" "$scope"
}

# Without us the host's own words about its spans are true; with us it says the same.
for story in $("${LAUNCH[@]}" "$STORIES"); do
	run "$story" OTELC_SPANS_JSON="$WORK/$story.spans" "$STORIES" "$story"
	expect_rc "$story" 0
	touch "$WORK/$story.spans"
	python3 "$CHECK_STORY" spans "$WORK/$story.out" "$WORK/$story.spans" off
done

for story in single nested unattached linked ended_inside scopes_decide handed_over async remote parents \
	out_of_order destroyed tokens own_storage renamed own_attributes many; do
	tell "$story" all
	diff <(grep '^span' "$WORK/$story.out" | sort) <(grep '^span' "$WORK/$story.all.out" | sort)
done
# The labels of roots are the matrix'; parents and remote ones decide which span is one.
tell parents root
tell remote root

# What is not recorded is never profiled.
for story in unsampled noop; do
	expect_unprofiled "$story.under" 0 "$STORIES" "$story" "$PIECE_MS"
done

# On request only spans that have samples lead to a profile: no dead links.
for scope in root all; do
	name=sampled.$scope
	tell_under "$name" "$scope" SPANPROF_ATTRIBUTES=with-samples "$STORIES" many "$PIECE_MS"
	expect_rc "$name" 0
	report "$WORK/$name" "$WORK/$name.json"
	python3 "$CHECK_STORY" sampled "$WORK/$name.spans" "$WORK/$name.json" "$scope"
done
