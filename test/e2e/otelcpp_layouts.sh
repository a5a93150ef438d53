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

# tell_layout PROGRAM STORY [VARIABLE=VALUE]...: the story with us, with samples, and without.
tell_layout()
{
	local build=${1%/*} story=$2

	NAME=${build##*/}.${story// /_}
	mkdir "$WORK/$NAME.alone"
	run "$NAME.alone" "$TEST_LIBS/$1" --story "$story" "$WORK/$NAME.alone"
	tell "$NAME" "$story" SPANPROF_STATUS_FILE="$WORK/$NAME.status" "${@:3}" "$TEST_LIBS/$1"
	cat "$WORK/$NAME.err"
	expect_same "$NAME.alone" "$NAME" out rc
}

# told FACT INSTEAD [OTHER]: in one line, beside that other fact, which is all there is but for losses, and for spans of the story that are
# open beside each other where starts label.
told()
{
	local line="opentelemetry-cpp, ABI v1: this release's $1 is not understood: $2"

	[[ $(grep 'spanprof\[' "$WORK/$NAME.err" | grep -Evc ": lost since|: spans interleave${3:+|$3}") == 1 ]] ||
		fail "$NAME: not one message"
	grep -F "$line" "$WORK/$NAME.err" >/dev/null || fail "$NAME: not \"$line\""
}

# in_status [FACT]...
in_status()
{
	local facts=("${@/#/\"}")

	facts=("${facts[@]/%/\",}")
	expect "$WORK/$NAME.status" \
		"sorted(u['fact'] for s in d['sdks'] for u in s['not_understood']) == [${facts[*]-}]"
}

readonly BY_STARTS='its scopes are not followed, spans label from start to end'

# expect_work NAME: the CPU time is that of the right spans, whatever is said.
expect_work()
{
	echo >"$WORK/nothing"
	sed -i '/^says /d' "$WORK/$1.d/work"
	python3 test/conformance/matrix.py told "$WORK/$1.d" "$WORK/nothing" samples || fail "$1: not as told"
}

# Where scopes are not understood, starts and ends label, from the first scope on.
for pair in 'foreign_token context::Token' 'foreign_context context::Context'; do
	read -r build fact <<<"$pair"
	# A root is asked for by a context among the options of its start, so these are not understood either.
	options=()
	[[ $build != foreign_context ]] || options=(trace::StartSpanOptions)
	tell_layout "otelcpp/$build/stories" 'ambient parent'
	told "$fact" "$BY_STARTS" "${options[@]}"
	in_status "$fact" "${options[@]}"
	expect_work "$NAME"
	tell_layout "otelcpp/$build/stories" 'interleaved roots'
	in_status "${options[@]}"
	expect_work "$NAME"
	# what the host does elsewhere, and out of order, harms nobody
	for story in 'odd calls' 'held by its scope' 'attached on another thread' 'detached on another thread' \
		'detached out of order' 'own storage'; do
		tell_layout "otelcpp/$build/stories" "$story"
		told "$fact" "$BY_STARTS" "${options[@]}"
	done
done

# What a program's own storage answers with is no smart pointer as we know one, and so is not destroyed by us.
tell_layout otelcpp/foreign_head/stories 'deaf storage'
told context::Context "$BY_STARTS" ': this release.s trace::StartSpanOptions is not understood'
expect_work "$NAME"

# Parents among the options are lost, scopes are not.
tell_layout otelcpp/foreign_options/stories 'attached remote span'
told trace::StartSpanOptions 'the span that is active on the thread counts as the parent'
in_status trace::StartSpanOptions
expect_work "$NAME"

# A span of which nothing can be read is not recorded.
for pair in 'foreign_ids trace::SpanContext' 'foreign_slots class of spans' 'foreign_pointer smart pointer'; do
	read -r build fact <<<"$pair"
	for story in nested 'remote parent' 'started beside an active span' 'odd calls' 'attached remote span'; do
		tell_layout "otelcpp/$build/stories" "$story"
		told "$fact" 'its spans are not profiled'
		[[ -z $(profiles_in "$WORK/$NAME.d") ]] || fail "$NAME: an unknown SDK was profiled"
	done
done
tell quiet nested SPANPROF_LOG_LEVEL=error "$TEST_LIBS/otelcpp/foreign_ids/stories"
expect_silent quiet

# A service that is named in code is not known.
tell_layout otelcpp/foreign_resource/stories nested STORY_SERVICE=shop
told resource::Resource 'the service is what variables name'
in_status resource::Resource
expect_work "$NAME"

# Where there is another way to the same there is nothing to warn of.
tell_layout conformance/v1_stl14/lazy nested
in_status "place of a span's context"
expect_told "$NAME"
for build in debian v1_24 v2_24; do
	tell_layout "conformance/$build/lazy" nested
	expect "$WORK/$NAME.status" "[s['not_understood'] for s in d['sdks']] == [[]]"
	expect_told "$NAME"
done

# A storage of the program's own, whose current context is not what was attached to it; and scopes that pile up,
# a symptom of the same.
tell_layout conformance/debian/lazy 'deaf storage'
told context::RuntimeContextStorage "$BY_STARTS"
in_status context::RuntimeContextStorage
tell_layout conformance/debian/lazy 'lost scopes'
told 'nesting of scopes' "$BY_STARTS"
in_status 'nesting of scopes'
expect "$WORK/$NAME.status" 'd["loss"]["span_stack_overflowed"] > 1000'
