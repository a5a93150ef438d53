#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every call of a host to otap-labs/opentelemetry-c reaches it exactly once, with the same arguments,
# result, errno and last error; our own calls are none but those that read ids and set attributes,
# and they give back what they were given.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

readonly OTELC=$TEST_LIBS/otelc
# What we may ask of the SDK, and with which results.
readonly OURS='^ours (get_context [0-9]+ -> [037]'\
'|context_(trace_id|span_id|flags) [0-9a-f]{16} -> 0|span_context_destroy [0-9a-f]{16}'\
'|context_span_context ([0-9a-f]{16}|-)|context_current -> ([0-9a-f]{16}|-)'\
'|context_destroy ([0-9a-f]{16}|-)|last_error_message -> .*|set_last_error .*|clear_last_error'\
'|set_string_attribute [0-9]+ pyroscope\.profile\.(id|url|baseline\.url) -> 0)$'

export SPANPROF_OUTPUT_DIR=$WORK/profiles
mkdir "$SPANPROF_OUTPUT_DIR"

of_host()
{
	grep -v '^ours ' "$WORK/$1.calls"
}

# What the host says, without the time it took.
said()
{
	grep -v '^cpu ' "$WORK/$1.out"
}

count()
{
	grep -cE "^ours $2" "$WORK/$1.calls" || true
}

# calls NAME RUNNER [VARIABLE=VALUE]... COMMAND...
calls()
{
	local name=$1 runner=$2

	shift 2
	rm -f "$WORK/$name.calls"
	"$runner" "$name" FIXTURE_CALLS="$WORK/$name.calls" "$@"
}

# same NAME [VARIABLE=VALUE]... COMMAND...: with and without us.
same()
{
	local name=$1

	shift
	calls plain run "$@"
	calls under run_under "$@"
	expect_rc plain 7
	expect_same plain under err rc
	diff <(said plain) <(said under) || fail "$name: the host sees another result"
	[[ $(grep -c '^call ' "$WORK/plain.out") -gt 0 ]] || fail "$name: the host says nothing"
	[[ -z $(grep '^ours ' "$WORK/plain.calls" || true) ]] || fail "$name: calls of nobody"
	diff <(of_host plain) <(of_host under) || fail "$name: other calls than the host's"
	if grep '^ours ' "$WORK/under.calls" | grep -Ev "$OURS"; then
		fail "$name: a call that nobody asked for"
	fi
	# each context that was handed out is given back
	[[ $(($(count under 'get_context [0-9]+ -> 0') +
		$(count under 'context_span_context [0-9a-f]{16}'))) == \
		$(count under span_context_destroy) ]] || fail "$name: a context was not given back"
	[[ $(count under context_current) == $(count under context_destroy) ]] ||
		fail "$name: an ambient context was not given back"
}

mapfile -t STORIES < <("${LAUNCH[@]}" "$OTELC/lazy")
((${#STORIES[@]} >= 10)) || fail "no stories"
for story in "${STORIES[@]}"; do
	# Losing labels, to the depth of our own stack or to interleaving, is worth a message otherwise.
	level=warn
	[[ $story != full_stack && $story != event_loop ]] || level=error
	same "$story" SPANPROF_LOG_LEVEL="$level" "$OTELC/lazy" "$story"
	same "$story.errno" SPANPROF_LOG_LEVEL="$level" FIXTURE_ERRNO=4711 "$OTELC/lazy" "$story"
done
for story in silent nested refused; do
	same "$story.noop" FIXTURE_MODE=noop "$OTELC/now" "$story"
done
for story in nested scopes; do
	same "$story.unsampled" FIXTURE_MODE=unsampled "$OTELC/lazy" "$story"
	[[ $(count under set_string_attribute) == 0 ]] || fail "an attribute of an unsampled span"
	same "$story.now" "$OTELC/now" "$story"
	same "$story.noplt" "$OTELC/noplt" "$story"
	for mode in local global; do
		same "$story.$mode" "$OTELC/opener" "$OTELC/libstories.so" "$mode" "$story"
		[[ $(count under set_string_attribute) -gt 0 ]] || fail "$mode: hooks did not run"
	done
done

# Every span that ends gets its attribute once, however it ends.
same ends "$OTELC/lazy" ends
[[ $(count under set_string_attribute) == 3 ]] || fail "not one attribute for each of three spans"

# Switched off: not one call more. Without attributes: none is set.
calls plain run "$OTELC/lazy" ambient
calls off run_under SPANPROF_DISABLED=true "$OTELC/lazy" ambient
expect_same plain off calls
calls never run_under SPANPROF_ATTRIBUTES=never "$OTELC/lazy" ambient
[[ $(count never get_context) -gt 0 && $(count never set_string_attribute) == 0 ]] ||
	fail "attributes although switched off"

# An SDK from before spans could be asked for their ids: untouched, and said once.
calls plain run LD_LIBRARY_PATH="$OTELC/old" "$OTELC/lazy" nested
calls old run_under LD_LIBRARY_PATH="$OTELC/old" "$OTELC/lazy" nested
expect_rc plain 7
expect_same plain old calls rc
diff <(said plain) <(said old) || fail "the old SDK behaves differently"
[[ $(grep -c 'spanprof\[.*cannot tell the ids' "$WORK/old.err") == 1 ]] || fail "not said once"

# Another library's functions of the same names get what their callers give.
run plain "$OTELC/foreign"
run_under foreign "$OTELC/foreign"
expect_rc plain 4
expect_same plain foreign out err rc
