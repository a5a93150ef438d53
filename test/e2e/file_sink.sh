#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Profiles written as files say which span used how much CPU time, on two threads with nested spans,
# and name no span that the SDK did not export.
# Runs alone: it judges shares of CPU time.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3
# More than the default rate, so that two seconds are enough for shares within 5 points.
export SPANPROF_SAMPLE_RATE=250

# profile SCOPE GROUP...
profile()
{
	local scope=$1

	shift
	mkdir "$WORK/$scope"
	run_under "$scope" SPANPROF_OUTPUT_DIR="$WORK/$scope" SPANPROF_SPAN_ID_SCOPE="$scope" \
		SPANPROF_SPAN_NAME_SCOPE="$scope" OTELC_SPANS_JSON="$WORK/$scope.spans" \
		"$HOSTS/spans" 1800
	expect_rc "$scope" 0
	expect_silent "$scope"
	report "$WORK/$scope" "$WORK/$scope.json"
	python3 "$CHECK" spans "$WORK/$scope.json" "$WORK/$scope.spans" "$scope"
	python3 "$CHECK" shares "$WORK/$scope.json" "$WORK/$scope.out" 5 "$@"
}

profile root checkout=checkout+charge search=search
profile all checkout=checkout charge=charge search=search

# Time outside of any span is in the profile too, without a label.
outside=$(awk '$2 == "outside" { print $3 }' "$WORK/root.out")
expect "$WORK/root.json" "d['total']['ns'] - d['labelled']['ns'] > 0.8 * $outside"

# The child's own id and name are used on request only.
profile_none()
{
	mkdir "$WORK/none"
	run_under none SPANPROF_OUTPUT_DIR="$WORK/none" SPANPROF_SPAN_ID_SCOPE=none \
		SPANPROF_SPAN_NAME_SCOPE=none "$HOSTS/spans" 300
	report "$WORK/none" "$WORK/none.json"
	expect "$WORK/none.json" 'all(s["span_id"] == "" for s in d["spans"])'
	expect "$WORK/none.json" 'all(n["span_name"] == "" for n in d["span_names"])'
}
profile_none
