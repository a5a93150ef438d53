#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Cases in which the profiler must not call otap-labs/opentelemetry-c. Switched off, the profiler calls no function of
# the library. With attributes off, it sets no attribute. The library's first release has no function for ids. Another
# library has functions of the same names. test/conformance tests which functions of the library are called in each
# story, and that the host's calls are unchanged.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

readonly OTELC=$TEST_LIBS/otelc HOST=$TEST_LIBS/conformance/otelc/lazy
export SPANPROF_OUTPUT_DIR=$WORK

# calls NAME RUNNER STORY [VARIABLE=VALUE]...: writes the folder NAME.d with the file calls.STORY
calls()
{
	local name=$1 runner=$2 story=$3

	shift 3
	mkdir "$WORK/$name.d"
	"$runner" "$name" "$@" "$HOST" --story "$story" "$WORK/$name.d"
	expect_rc "$name" 7
}

# count_ours NAME STORY PATTERN
count_ours()
{
	grep -cE "^ours $3" "$WORK/$1.d/calls.$2" || true
}

readonly STORY='ambient parent'
calls plain run "$STORY"
calls off run_under "$STORY" SPANPROF_DISABLED=true
cmp "$WORK/plain.d/calls.$STORY" "$WORK/off.d/calls.$STORY" || fail "a call of ours although switched off"
calls never run_under "$STORY" SPANPROF_ATTRIBUTES=never
[[ $(count_ours never "$STORY" get_context) -gt 0 && $(count_ours never "$STORY" set_string_attribute) == 0 ]] ||
	fail "attributes although switched off"

# An SDK that is too old to tell the ids of spans: it is left alone, and that is reported once. The host cannot ask it
# either.
calls old.plain run single LD_LIBRARY_PATH="$OTELC/old"
calls old run_under single LD_LIBRARY_PATH="$OTELC/old"
expect_same old.plain old out
cmp "$WORK/old.plain.d/calls.single" "$WORK/old.d/calls.single" || fail "the old SDK is asked for more"
[[ -s $WORK/old.d/calls.single ]] || fail "the host calls nothing"
[[ $(grep -c 'spanprof\[.*does not show the ids' "$WORK/old.err") == 1 ]] || fail "not said once"

# Another library's functions of the same names get their callers' arguments.
run plain "$OTELC/foreign"
run_under foreign "$OTELC/foreign"
expect_rc plain 4
expect_same plain foreign out err rc
