#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A span's links show its profile: the server, asked for just the time range and selectors of each URL, has every
# sample of every span, even while pushes take longer than the upload interval. The baseline is found for any names.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3
# Each sample stands for its period, so what a span has at least is known.
export SPANPROF_SAMPLE_RATE=250 SPANPROF_PUSH_QUEUE_CAPACITY=64 SPANPROF_MEASURE_ROOTS=false

# follow NAME...: opens the links of these runs
follow()
{
	local -a spans=("${@/%/.spans}")

	python3 test/e2e/profile_urls.py "$DOUBLE_URL" "$SPANPROF_SAMPLE_RATE" "${spans[@]/#/$WORK/}"
}

# Each push takes as long as several upload intervals.
double_start --ack-delay 500-700
run_under slow SPANPROF_SERVER_ADDRESS="$DOUBLE_URL" SPANPROF_UPLOAD_INTERVAL=400ms \
	SPANPROF_PUSH_TIMEOUT=10s SPANPROF_FLUSH_TIMEOUT=30s SPANPROF_PROFILE_URL=grafana-drilldown \
	OTELC_SPANS_JSON="$WORK/slow.spans" "$HOSTS/spans" 2500
expect_rc slow 0
follow slow

for preset in grafana-drilldown grafana-explore; do
	# shellcheck disable=SC2119
	double_start
	for number in first second; do
		run_under "$preset-$number" SPANPROF_SERVER_ADDRESS="$DOUBLE_URL" \
			SPANPROF_PROFILE_URL="$preset" SPANPROF_APPLICATION_NAME='a "b" \c' \
			OTELC_SPANS_JSON="$WORK/$preset-$number.spans" \
			"$HOSTS/spans" 400 'GET /a,b|c#d "e" \f'
		expect_rc "$preset-$number" 0
	done
	follow "$preset-first" "$preset-second"
done
