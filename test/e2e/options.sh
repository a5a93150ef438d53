#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The options for labels and attributes, under their own names and under the names in Pyroscope's other libraries: the
# SDK exports the right attributes and the samples have the right labels.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3
readonly STORIES=$TEST_LIBS/conformance/debian/lazy
readonly GRAFANA=SPANPROF_PROFILE_BASE_URL=http://grafana.example
# Besides the samples that the story takes, the thread's own timer takes almost none.
export SPANPROF_SAMPLE_RATE=1
# By default only spans with samples have attributes.
unset SPANPROF_ATTRIBUTES
run=0

# options STORY "EXPECTATION..." [VARIABLE=VALUE]...: see options.py
options()
{
	local story=$1 expected=$2 name

	shift 2
	run=$((run + 1))
	name=${story// /_}.$run
	echo "$story: $* -> $expected"
	mkdir "$WORK/$name"
	run_under "$name" SPANPROF_OUTPUT_DIR="$WORK/$name" "$@" \
		"$STORIES" --story "$story" --samples 2 "$WORK/$name"
	expect_rc "$name" 7
	if grep 'spanprof\[' "$WORK/$name.err" | grep -v ': spans interleave'; then
		fail "$name: messages on stderr"
	fi
	report "$WORK/$name" "$WORK/$name.json"
	# shellcheck disable=SC2086 # several words
	python3 test/e2e/options.py "$WORK/$name/spans" "$WORK/$name.json" $expected
}

# In "nested" c is inside b, and b inside a; each has its own samples.
readonly AS_ROOT="ids=a names=a traces=yes"
options nested "$AS_ROOT attributes=a:id"
options nested "$AS_ROOT attributes=a:id,url,baseline.url" "$GRAFANA"
options nested "$AS_ROOT attributes=a:id,baseline.url" "$GRAFANA" \
	OTEL_PYROSCOPE_ADD_PROFILE_URL=false
options nested "$AS_ROOT attributes=a:id,url" "$GRAFANA" \
	OTEL_PYROSCOPE_ADD_PROFILE_BASELINE_URL=false
options nested "$AS_ROOT attributes=a:id,url,baseline.url,diff.url" \
	SPANPROF_PROFILE_URL=pyroscope-legacy
options nested "$AS_ROOT attributes=" "$GRAFANA" SPANPROF_ATTRIBUTES=never
options nested "ids=a,b,c names=a,b,c traces=yes attributes=a:id b:id c:id" \
	OTEL_PYROSCOPE_ROOT_SPAN_ONLY=false
# a child's id and the root's name are on one sample only with these options
options nested "ids=a,b,c names=a,b,c traces=yes attributes=a:id b:id c:id" \
	SPANPROF_SPAN_ID_SCOPE=all
options nested "ids=a,b,c names=a traces=yes attributes=a:id b:id c:id" \
	SPANPROF_SPAN_ID_SCOPE=all SPANPROF_SPAN_NAME_SCOPE=root
options nested "ids=a names=a,b,c traces=yes attributes=a:id" \
	SPANPROF_SPAN_NAME_SCOPE=all
options nested "ids=a names= traces=yes attributes=a:id,url" "$GRAFANA" \
	OTEL_PYROSCOPE_ADD_SPAN_NAME=false
options nested "ids= names=a traces=no attributes=" SPANPROF_SPAN_ID_SCOPE=none
options nested "ids= names=a traces=unseen attributes=" SPANPROF_SPAN_ID_SCOPE=none SPANPROF_TRACE_ID=true
options nested "ids=a names=a traces=no attributes=a:id" SPANPROF_TRACE_ID=false
# our own name for an option wins over an alias
options nested "$AS_ROOT attributes=a:id" SPANPROF_SPAN_ID_SCOPE=root \
	OTEL_PYROSCOPE_ROOT_SPAN_ONLY=false

# "interleaved roots" has no scopes. While a and b are both open, and then b and c, only SPANPROF_ACTIVE_SPAN=start
# says which one the thread works for.
options 'interleaved roots' "ids=b names=b traces=yes attributes=b:id"
options 'interleaved roots' "ids=b,c names=b,c traces=yes attributes=b:id c:id" SPANPROF_ACTIVE_SPAN=start
options 'interleaved roots' "ids= names= traces=no attributes=a:id b:id c:id" SPANPROF_ACTIVE_SPAN=scope \
	SPANPROF_ATTRIBUTES=always
options 'interleaved roots' "ids= names= traces=no attributes=" SPANPROF_ACTIVE_SPAN=scope
