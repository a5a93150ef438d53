#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Builds of opentelemetry-cpp whose layout is that of no known release. One message, the status file and the doctor
# say which part is not understood. The program runs as without us. Labels come from the next best source, or there
# are none, but never wrong ones.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash
# shellcheck source=test/common/stories.bash
source test/common/stories.bash

need python3

# tell_layout PROGRAM STORY [VARIABLE=VALUE]...: runs the story with the profiler, with samples, and without it.
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

# told FACT INSTEAD [OTHER]: one line reports the fact. Besides the other fact, only lines about losses may follow,
# and about spans that are open at the same time if starts label.
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

# expect_work NAME: the CPU time belongs to the right spans, whatever the messages say.
expect_work()
{
	echo >"$WORK/nothing"
	sed -i '/^says /d' "$WORK/$1.d/work"
	python3 test/conformance/matrix.py told "$WORK/$1.d" "$WORK/nothing" samples || fail "$1: not as told"
}

# If scopes are not understood, starts and ends of spans label, from the first scope on.
for pair in 'foreign_token context::Token' 'foreign_context context::Context'; do
	read -r build fact <<<"$pair"
	# A context among the options of a start can ask for a root, so options are not understood either.
	options=()
	[[ $build != foreign_context ]] || options=(trace::StartSpanOptions)
	tell_layout "otelcpp/$build/stories" 'ambient parent'
	told "$fact" "$BY_STARTS" "${options[@]}"
	in_status "$fact" "${options[@]}"
	expect_work "$NAME"
	tell_layout "otelcpp/$build/stories" 'interleaved roots'
	in_status "${options[@]}"
	expect_work "$NAME"
	# unusual calls of the host, in unusual order, do no harm
	for story in 'odd calls' 'held by its scope' 'attached on another thread' 'detached on another thread' \
		'detached out of order' 'own storage'; do
		tell_layout "otelcpp/$build/stories" "$story"
		told "$fact" "$BY_STARTS" "${options[@]}"
	done
done

# The answer of a program's own storage is no smart pointer of a known kind, so we do not destroy it.
tell_layout otelcpp/foreign_head/stories 'deaf storage'
told context::Context "$BY_STARTS" ': this release.s trace::StartSpanOptions is not understood'
expect_work "$NAME"

# Parents in the options are lost, scopes are not.
tell_layout otelcpp/foreign_options/stories 'attached remote span'
told trace::StartSpanOptions 'the span that is active on the thread counts as the parent'
in_status trace::StartSpanOptions
expect_work "$NAME"

# If nothing of a span can be read, the span is not recorded.
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

# The name of the service in the code is unknown.
tell_layout otelcpp/foreign_resource/stories nested STORY_SERVICE=shop
told resource::Resource 'only variables name the service'
in_status resource::Resource
expect_work "$NAME"

# If another mechanism gives the same result, there is no warning.
tell_layout conformance/v1_stl14/lazy nested
in_status "place of a span's context"
expect_told "$NAME"
for build in debian v1_24 v2_24; do
	tell_layout "conformance/$build/lazy" nested
	expect "$WORK/$NAME.status" "[s['not_understood'] for s in d['sdks']] == [[]]"
	expect_told "$NAME"
done

# A program's own storage, whose current context is not the attached one; and scopes that pile up for the same reason.
tell_layout conformance/debian/lazy 'deaf storage'
told context::RuntimeContextStorage "$BY_STARTS"
in_status context::RuntimeContextStorage
tell_layout conformance/debian/lazy 'lost scopes'
told 'nesting of scopes' "$BY_STARTS"
in_status 'nesting of scopes'
expect "$WORK/$NAME.status" 'd["loss"]["span_stack_overflowed"] > 1000'
