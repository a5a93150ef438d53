#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every call of a host to haproxytech/opentelemetry-c-wrapper reaches it exactly once, with the same
# arguments, result, errno and error message, in every layout that was released; our own calls are
# none but those that ask for ids and set attributes. Releases that are not known are left alone.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash
# shellcheck source=test/common/stories.bash
source test/common/stories.bash

readonly HAPROXY=$TEST_LIBS/haproxy
readonly RELEASES=(1.0 2.2 3.2 3.3)
# What we may ask of the SDK, and with which results.
readonly OURS='^ours (version|is_recording [0-9]+ -> [01]|get_id [0-9]+ -> 0|context_get_id'\
'|set_attribute_kv_n [0-9]+ 1 pyroscope\.profile\.(id|url|baseline\.url) 0) errno 0$'

export SPANPROF_OUTPUT_DIR=$WORK/profiles
mkdir "$SPANPROF_OUTPUT_DIR"

# same NAME [VARIABLE=VALUE]... COMMAND...
same()
{
	same_calls "$1" "$OURS" "${@:2}"
}

# attributes NUMBER: so many spans got one.
attributes()
{
	[[ $(count_ours under set_attribute_kv_n) == "$1" ]] ||
		fail "$(count_ours under set_attribute_kv_n) attributes, not $1"
}

for release in "${RELEASES[@]}"; do
	host=$HAPROXY/$release/stories
	mapfile -t STORIES < <("$host")
	((${#STORIES[@]} >= 10)) || fail "no stories"
	for story in "${STORIES[@]}"; do
		# Spans that interleave are worth a message otherwise.
		level=warn
		[[ $story != event_loop ]] || level=error
		same "$release $story" SPANPROF_LOG_LEVEL="$level" FIXTURE_ERRNO=4711 "$host" "$story"
		expect_same plain under err
	done
	# Every root that ends gets its attribute once, however it ends; with all, every span.
	same "$release ends" "$host" ends
	attributes 3
	same "$release forked" "$host" forked
	attributes 1
	same "$release event_loop" SPANPROF_SPAN_ID_SCOPE=all "$host" event_loop
	attributes 4
	for mode in noop unsampled record_only; do
		same "$release $mode" FIXTURE_MODE="$mode" "$host" silent
		attributes 0
	done
	same "$release no_tracer" FIXTURE_MODE=no_tracer "$host" no_tracer
	[[ $(count_ours under '') == 0 ]] || fail "$release: calls without a tracer"
done

# The first tracers and spans of many threads at once; their order is anybody's.
sorted()
{
	calls_of_host "$1" | tr -d 0-9 | sort
}
for release in 2.2 3.3; do
	calls plain run "$HAPROXY/$release/stories" crowd
	calls under run_under SPANPROF_LOG_LEVEL=error "$HAPROXY/$release/stories" crowd
	diff <(sorted plain) <(sorted under) || fail "crowd: other calls than the host's"
	attributes 160
done

# alone NAME MESSAGES [VARIABLE=VALUE]... COMMAND...: left alone, which is said as often as that.
alone()
{
	local name=$1 messages=$2

	shift 2
	calls plain run "$@"
	calls under run_under "$@"
	diff <(said plain) <(said under) || fail "$name: the host sees another result"
	diff <(calls_of_host plain) <(calls_of_host under) || fail "$name: other calls than the host's"
	[[ $(count_ours under '') == $(count_ours under 'version errno') ]] || fail "$name: it was touched"
	[[ $(grep -c 'spanprof\[.*none of the supported releases' "$WORK/under.err") == \
		"$messages" ]] || fail "$name: not said $messages times"
	[[ $(wc -l <"$WORK/under.err") == "$messages" ]] || fail "$name: more was said"
}
alone 4.0 1 "$HAPROXY/4.0/stories" nested
alone tracers 1 "$HAPROXY/4.0/stories" tracers
alone unversioned 1 "$HAPROXY/unversioned/stories" nested
for version in 0.9.0-3 3.3.0-0 3.3.1-1 3.4.0-1300 4.0.0-1 garbage ''; do
	alone "$version" 1 FIXTURE_VERSION="$version" "$HAPROXY/3.3/stories" nested
done
# A layout that is not the one its version promises.
alone mixed 1 FIXTURE_VERSION=3.3.0-1234 "$HAPROXY/1.0/stories" nested
alone mixed 1 FIXTURE_VERSION=1.0.0-1 "$HAPROXY/3.2/stories" nested

# Switched off: not one call more, not even for the version. Without attributes: none is set.
calls plain run "$HAPROXY/3.3/stories" nested
calls off run_under SPANPROF_DISABLED=true "$HAPROXY/3.3/stories" nested
expect_same plain off calls err
alone off 0 SPANPROF_DISABLED=true "$HAPROXY/4.0/stories" nested
calls never run_under SPANPROF_ATTRIBUTES=never "$HAPROXY/3.3/stories" nested
[[ $(count_ours never get_id) == 2 && $(count_ours never set_attribute_kv_n) == 0 ]] ||
	fail "attributes although switched off"

# Another library's function of that name gets what its caller gives, and is not touched.
run plain "$HAPROXY/foreign"
run_under foreign "$HAPROXY/foreign"
expect_rc plain 4
expect_same plain foreign out rc

# What is told beforehand is what is done.
run check build/spanprof-run --check "$HAPROXY/3.3/stories"
expect_rc check 0
grep -q 'opentelemetry-c-wrapper .*hooked: its tables' "$WORK/check.out" || fail "not foretold"
