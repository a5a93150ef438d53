#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every call of a host to otap-labs/opentelemetry-c reaches it exactly once, with the same arguments,
# result, errno and last error; our own calls are none but those that read ids and set attributes,
# and they give back what they were given.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash
# shellcheck source=test/common/stories.bash
source test/common/stories.bash

readonly OTELC=$TEST_LIBS/otelc
# What we may ask of the SDK, and with which results.
readonly OURS='^ours (get_context [0-9]+ -> [037]'\
'|context_(trace_id|span_id|flags) [0-9a-f]{16} -> 0|span_context_destroy [0-9a-f]{16}'\
'|context_span_context ([0-9a-f]{16}|-)|context_current -> ([0-9a-f]{16}|-)'\
'|context_destroy ([0-9a-f]{16}|-)|last_error_message -> .*|set_last_error .*|clear_last_error'\
'|set_string_attribute [0-9]+ pyroscope\.profile\.(id|url|baseline\.url) -> 0)$'

export SPANPROF_OUTPUT_DIR=$WORK/profiles
mkdir "$SPANPROF_OUTPUT_DIR"

# same NAME [VARIABLE=VALUE]... COMMAND...
same()
{
	local name=$1

	same_calls "$name" "$OURS" "${@:2}"
	expect_same plain under err
	[[ $(grep -c '^call ' "$WORK/plain.out") -gt 0 ]] || fail "$name: the host says nothing"
	# each context that was handed out is given back
	[[ $(($(count_ours under 'get_context [0-9]+ -> 0') +
		$(count_ours under 'context_span_context [0-9a-f]{16}'))) == \
		$(count_ours under span_context_destroy) ]] || fail "$name: a context was not given back"
	[[ $(count_ours under context_current) == $(count_ours under context_destroy) ]] ||
		fail "$name: an ambient context was not given back"
}

mapfile -t STORIES < <("${LAUNCH[@]}" "$OTELC/lazy")
((${#STORIES[@]} >= 10)) || fail "no stories"
for story in "${STORIES[@]}"; do
	# Losing labels, to the depth of our own stack or to interleaving, is worth a message otherwise.
	level=warn
	[[ $story != full_stack && $story != unrelated ]] || level=error
	same "$story" SPANPROF_LOG_LEVEL="$level" "$OTELC/lazy" "$story"
	same "$story.errno" SPANPROF_LOG_LEVEL="$level" FIXTURE_ERRNO=4711 "$OTELC/lazy" "$story"
done
for story in silent nested refused; do
	same "$story.noop" FIXTURE_MODE=noop "$OTELC/now" "$story"
done
for story in nested scopes; do
	same "$story.unsampled" FIXTURE_MODE=unsampled "$OTELC/lazy" "$story"
	[[ $(count_ours under set_string_attribute) == 0 ]] || fail "an attribute of an unsampled span"
	same "$story.now" "$OTELC/now" "$story"
	same "$story.noplt" "$OTELC/noplt" "$story"
	for mode in local global; do
		same "$story.$mode" "$OTELC/opener" "$OTELC/libstories.so" "$mode" "$story"
		[[ $(count_ours under set_string_attribute) -gt 0 ]] || fail "$mode: hooks did not run"
	done
done

# Every span that ends gets its attribute once, however it ends.
same ends "$OTELC/lazy" ends
[[ $(count_ours under set_string_attribute) == 3 ]] || fail "not one attribute for each of three spans"

# Switched off: not one call more. Without attributes: none is set.
calls plain run "$OTELC/lazy" ambient
calls off run_under SPANPROF_DISABLED=true "$OTELC/lazy" ambient
expect_same plain off calls
calls never run_under SPANPROF_ATTRIBUTES=never "$OTELC/lazy" ambient
[[ $(count_ours never get_context) -gt 0 && $(count_ours never set_string_attribute) == 0 ]] ||
	fail "attributes although switched off"

# An SDK from before spans could be asked for their ids: untouched, and said once.
calls plain run LD_LIBRARY_PATH="$OTELC/old" "$OTELC/lazy" nested
calls old run_under LD_LIBRARY_PATH="$OTELC/old" "$OTELC/lazy" nested
expect_same plain old calls
diff <(said plain) <(said old) || fail "the old SDK behaves differently"
[[ $(grep -c 'spanprof\[.*cannot tell the ids' "$WORK/old.err") == 1 ]] || fail "not said once"

# Another library's functions of the same names get what their callers give.
run plain "$OTELC/foreign"
run_under foreign "$OTELC/foreign"
expect_rc plain 4
expect_same plain foreign out err rc
