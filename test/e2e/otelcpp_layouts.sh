#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Builds of opentelemetry-cpp that are laid out as no release that we know. What of them is not
# understood is said once, in the status file and by the doctor; the program runs as without us; and
# the labels come from the next best source, or there are none: never wrong ones.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash
# shellcheck source=test/common/stories.bash
source test/common/stories.bash

need python3
readonly PIECE_MS=80

# tell BUILD STORY: the story with us and without.
tell()
{
	NAME=$1.$2
	run "$NAME.alone" "$TEST_LIBS/otelcpp/$1/stories" "$2" 1
	tell_under "$NAME" all SPANPROF_STATUS_FILE="$WORK/$NAME.status" \
		"$TEST_LIBS/otelcpp/$1/stories" "$2" "$PIECE_MS"
	cat "$WORK/$NAME.err"
	expect_rc "$NAME" 0
	# Of several threads the lines come in any order.
	diff <(sed 's/ [0-9]*$//' "$WORK/$NAME.alone.out" | sort) <(sed 's/ [0-9]*$//' "$WORK/$NAME.out" | sort) ||
		fail "$NAME: the host noticed"
}

# told FACT INSTEAD: in one line, which is all there is but for losses, and for spans of the story that are
# open beside each other where starts label.
told()
{
	local line="opentelemetry-cpp, ABI v1: this release's $1 is not understood: $2"

	[[ $(grep 'spanprof\[' "$WORK/$NAME.err" | grep -Evc ': lost since|: spans interleave') == 1 ]] ||
		fail "$NAME: not one message"
	grep -F "$line" "$WORK/$NAME.err" >/dev/null || fail "$NAME: not \"$line\""
}

# in_status [FACT]...
in_status()
{
	local facts=("${@/#/\"}")

	facts=("${facts[@]/%/\",}")
	expect "$WORK/$NAME.status" \
		"[u['fact'] for s in d['sdks'] for u in s['not_understood']] == [${facts[*]-}]"
}

readonly BY_STARTS='its scopes are not followed, spans label from start to end'

# Where scopes are not understood, starts and ends label, from the first scope on.
for pair in 'foreign_token context::Token' 'foreign_context context::Context'; do
	read -r build fact <<<"$pair"
	for story in renamed unattached; do
		tell "$build" "$story"
		if [[ $story == renamed ]]; then
			told "$fact" "$BY_STARTS"
			in_status "$fact"
		else
			[[ $(grep -c 'spanprof\[.*: spans interleave' "$WORK/$NAME.err") == 1 ]] ||
				fail "$NAME: not said once that spans interleave"
			in_status
		fi
		expect_told "$NAME" all
	done
	# what the host does elsewhere, and out of order, harms nobody
	for story in tokens destroyed async out_of_order own_storage; do
		tell "$build" "$story"
		told "$fact" "$BY_STARTS"
	done
done

# Parents among the options are lost, scopes are not.
tell foreign_options remote
told trace::StartSpanOptions 'the span that is active on the thread counts as the parent'
in_status trace::StartSpanOptions
expect_told "$NAME" all

# A span of which nothing can be read is not recorded.
for pair in 'foreign_ids trace::SpanContext' 'foreign_slots class of spans' 'foreign_pointer smart pointer'; do
	read -r build fact <<<"$pair"
	for story in nested remote parents tokens many; do
		tell "$build" "$story"
		told "$fact" 'its spans are not profiled'
		[[ -z $(profiles_in "$WORK/$NAME") ]] || fail "$NAME: an unknown SDK was profiled"
	done
done
run_under quiet SPANPROF_LOG_LEVEL=error SPANPROF_OUTPUT_DIR="$WORK" \
	"$TEST_LIBS/otelcpp/foreign_ids/stories" nested 1
expect_silent quiet

# A service that is named in code is not known.
tell_under foreign_resource.nested all STORY_SERVICE=shop SPANPROF_STATUS_FILE="$WORK/foreign_resource.nested.status" \
	"$TEST_LIBS/otelcpp/foreign_resource/stories" nested "$PIECE_MS"
NAME=foreign_resource.nested
expect_rc "$NAME" 0
told resource::Resource 'the service is what variables name'
in_status resource::Resource
expect_told "$NAME" all

# Where there is another way to the same there is nothing to warn of.
tell v1_stl14 nested
expect_silent "$NAME"
in_status "place of a span's context"
expect_told "$NAME" all
for build in debian v1_24 v2_24; do
	tell "$build" nested
	expect_silent "$NAME"
	expect "$WORK/$NAME.status" "[s['not_understood'] for s in d['sdks']] == [[]]"
	expect_told "$NAME" all
done

# A storage of the program's own, whose current context is not what was attached to it.
tell debian deaf_storage
told context::RuntimeContextStorage "$BY_STARTS"
in_status context::RuntimeContextStorage
expect_told "$NAME" all

# Scopes that pile up are a symptom of the same.
tell debian piled_up
told 'nesting of scopes' "$BY_STARTS"
in_status 'nesting of scopes'
expect "$WORK/$NAME.status" 'd["loss"]["span_stack_overflowed"] > 1000'
expect_told "$NAME" all
