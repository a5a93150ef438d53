#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The options of labels and attributes, under their own names and under those that users of Pyroscope's
# other libraries know: what the SDK exports and what the samples carry.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3
readonly STORIES=$TEST_LIBS/otelcpp/debian/stories
readonly PIECE_MS=60
readonly GRAFANA=SPANPROF_PROFILE_BASE_URL=http://grafana.example
export SPANPROF_SAMPLE_RATE=250
# With the default only spans with samples have attributes.
unset SPANPROF_ATTRIBUTES
run=0

# options STORY "EXPECTATION..." [VARIABLE=VALUE]...: see options.py
options()
{
	local story=$1 expected=$2 name

	shift 2
	run=$((run + 1))
	name=$story.$run
	echo "$story: $* -> $expected"
	mkdir "$WORK/$name"
	run_under "$name" SPANPROF_OUTPUT_DIR="$WORK/$name" OTELC_SPANS_JSON="$WORK/$name.spans" "$@" \
		"$STORIES" "$story" "$PIECE_MS"
	expect_rc "$name" 0
	if grep 'spanprof\[' "$WORK/$name.err" | grep -v ': spans interleave'; then
		fail "$name: messages on stderr"
	fi
	report "$WORK/$name" "$WORK/$name.json"
	# shellcheck disable=SC2086 # several words
	python3 test/e2e/options.py "$WORK/$name.spans" "$WORK/$name.json" $expected
}

# In "nested" the outer span works for two pieces and the inner one for one.
readonly AS_ROOT="ids=outer names=outer traces=yes"
options nested "$AS_ROOT attributes=outer:id"
options nested "$AS_ROOT attributes=outer:id,url,baseline.url" "$GRAFANA"
options nested "$AS_ROOT attributes=outer:id,baseline.url" "$GRAFANA" \
	OTEL_PYROSCOPE_ADD_PROFILE_URL=false
options nested "$AS_ROOT attributes=outer:id,url" "$GRAFANA" \
	OTEL_PYROSCOPE_ADD_PROFILE_BASELINE_URL=false
options nested "$AS_ROOT attributes=outer:id,url,baseline.url,diff.url" \
	SPANPROF_PROFILE_URL=pyroscope-legacy
options nested "$AS_ROOT attributes=" "$GRAFANA" SPANPROF_ATTRIBUTES=never
options nested "ids=outer,inner names=outer,inner traces=yes attributes=outer:id inner:id" \
	OTEL_PYROSCOPE_ROOT_SPAN_ONLY=false
# a child's id and the root's name on one sample only where that is asked for
options nested "ids=outer,inner names=outer,inner traces=yes attributes=outer:id inner:id" \
	SPANPROF_SPAN_ID_SCOPE=all
options nested "ids=outer,inner names=outer traces=yes attributes=outer:id inner:id" \
	SPANPROF_SPAN_ID_SCOPE=all SPANPROF_SPAN_NAME_SCOPE=root
options nested "ids=outer names=outer,inner traces=yes attributes=outer:id" \
	SPANPROF_SPAN_NAME_SCOPE=all
options nested "ids=outer names= traces=yes attributes=outer:id,url" "$GRAFANA" \
	OTEL_PYROSCOPE_ADD_SPAN_NAME=false
options nested "ids= names=outer traces=unseen attributes=" SPANPROF_SPAN_ID_SCOPE=none
options nested "ids=outer names=outer traces=no attributes=outer:id" SPANPROF_TRACE_ID=false
# our own name wins over an alias
options nested "$AS_ROOT attributes=outer:id" SPANPROF_SPAN_ID_SCOPE=root \
	OTEL_PYROSCOPE_ROOT_SPAN_ONLY=false

# In "unattached" nothing is a scope, in "scopes_decide" one of two open spans is attached.
# While both of the former are open, only SPANPROF_ACTIVE_SPAN=start says which one the thread works for.
options unattached "ids=first names=first traces=yes attributes=first:id"
options unattached "ids=first,second names=first,second traces=yes attributes=first:id second:id" \
	SPANPROF_ACTIVE_SPAN=start
options unattached "ids= names= traces=no attributes=first:id second:id" SPANPROF_ACTIVE_SPAN=scope \
	SPANPROF_ATTRIBUTES=always
options unattached "ids= names= traces=no attributes=" SPANPROF_ACTIVE_SPAN=scope
