#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every call of the host reaches the SDK exactly once, with the same arguments, result and errno; our
# own calls are none but those that read a span's ids and set its attributes.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

mkdir "$WORK/profiles"
export SPANPROF_OUTPUT_DIR=$WORK/profiles FIXTURE_SEED=11

# calls NAME COMMAND...: "run NAME" with the SDK's record in NAME.calls.
calls()
{
	local runner=$1 name=$2

	shift 2
	"$runner" "$name" FIXTURE_CALLS="$WORK/$name.calls" "$@" "$HOSTS/calls"
}

# What only the host asks for, without the numbers that our own maps shift.
of_host()
{
	grep -E '^(init|start|end|status|event|otelc_set_int32_t_attr)' "$WORK/$1.calls" |
		sed -E 's/^(otelc_set_int32_t_attr) [0-9]+/\1/'
}

for after in '' FIXTURE_ERRNO=4711; do
	calls run plain ${after:+"$after"}
	calls run_under under ${after:+"$after"}
	expect_same plain under out err rc
	diff <(of_host plain) <(of_host under) || fail "other calls than the host's"
	# Each recorded span once, before its end, and a map for each, which is given back.
	[[ $(grep -c '^extract' "$WORK/under.calls") -gt $(grep -c '^extract' "$WORK/plain.calls") ]] ||
		fail "no span was looked at"
	[[ $(grep -c '^create_map' "$WORK/under.calls") == $(grep -c '^destroy_map' "$WORK/under.calls") ]] ||
		fail "a map was not given back"
	if grep '^set_str' "$WORK/under.calls" | grep -Ev ' (key|pyroscope\.profile\.[a-z.]+)$'; then
		fail "an attribute that nobody asked for"
	fi
	rm "$WORK"/*.calls
done

# Switched off or unsampled: not one call more, but for the look at the ids that tells it.
calls run plain
calls run_under off SPANPROF_DISABLED=true
expect_same plain off out err rc calls
calls run_under never SPANPROF_ATTRIBUTES=never
diff <(grep -v '^extract' "$WORK/plain.calls") <(grep -v '^extract' "$WORK/never.calls") ||
	fail "attributes although switched off"
rm "$WORK"/*.calls
calls run plain FIXTURE_UNSAMPLED=1
calls run_under unsampled FIXTURE_UNSAMPLED=1
diff <(grep -v '^extract' "$WORK/plain.calls") <(grep -v '^extract' "$WORK/unsampled.calls") ||
	fail "an unsampled span was touched"
