#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Each switch keeps us inert: no profile, no message, no attribute, nothing loaded; the opposite value
# of each does not.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

# try NAME VARIABLE=VALUE profiled|inert
try()
{
	local name=$1 setting=$2 wanted=$3

	mkdir "$WORK/$name"
	run_under "$name" SPANPROF_OUTPUT_DIR="$WORK/$name" FIXTURE_SPANS="$WORK/$name.spans" \
		"$setting" "$HOSTS/spend" 150
	expect_same plain "$name" out err rc
	if [[ $wanted == profiled ]]; then
		[[ -n $(profiles_in "$WORK/$name") ]] || fail "$setting: not profiled"
		grep -q 'pyroscope\.profile\.id' "$WORK/$name.spans" || fail "$setting: no attribute"
	else
		[[ -z $(ls "$WORK/$name") ]] || fail "$setting: profiled"
		grep -q '"attributes":{}' "$WORK/$name.spans" || fail "$setting: attributes"
	fi
}

run plain "$HOSTS/spend" 150
expect_rc plain 7
try default SP_UNUSED=1 profiled
try own SPANPROF_DISABLED=true inert
try otel OTEL_SDK_DISABLED=true inert
try otel-case OTEL_SDK_DISABLED=TRUE inert
try agent PYROSCOPE_AGENT_ENABLED=false inert
try start OTEL_PYROSCOPE_START_PROFILING=false inert
try own-off SPANPROF_DISABLED=false profiled
try own-empty SPANPROF_DISABLED= profiled
try otel-off OTEL_SDK_DISABLED=false profiled
try agent-on PYROSCOPE_AGENT_ENABLED=true profiled
# Also against a start that was asked for.
mkdir "$WORK/always"
run_under always SPANPROF_OUTPUT_DIR="$WORK/always" SPANPROF_PROFILE=always \
	SPANPROF_DISABLED=true "$HOSTS/spend" 150
expect_same plain always out err rc
[[ -z $(ls "$WORK/always") ]] || fail "profiled although switched off"
