#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The same samples as pprof and in OTLP, one to the server and one into the folder, and the other way round: each span
# has the same nanoseconds of CPU time, of waiting time and of both. The resource is complete, links have the trace,
# and the variables of OpenTelemetry's exporters count.
# shellcheck disable=SC2119
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3 curl
export SPANPROF_OFF_CPU=true SPANPROF_WALL=true SPANPROF_UPLOAD_INTERVAL=500ms
export OTEL_SERVICE_NAME=shop OTEL_RESOURCE_ATTRIBUTES='k8s.pod.name=pod-1,cloud.region=north'

# host NAME VARIABLE=VALUE...: runs the host with a new double.
host()
{
	local name=$1

	shift
	mkdir "$WORK/$name"
	run_under "$name" SPANPROF_OUTPUT_DIR="$WORK/$name" OTELC_SPANS_JSON="$WORK/$name.spans" "$@" \
		"$HOSTS/spans" 900
	expect_rc "$name" 0
}

# is_equal NAME: folder and double agree about each span, for every type.
is_equal()
{
	local type

	double_get /double/spans "$WORK/$1.json"
	for type in cpu off_cpu wall; do
		build/spanprof-report --json --type "$type" "$WORK/$1" >"$WORK/$1.$type" || return 1
	done
	python3 - "$WORK/$1.json" "$WORK/$1".{cpu,off_cpu,wall} <<-'END' 2>"$WORK/$1.differs"
		import json, sys
		double, *reports = (json.load(open(name)) for name in sys.argv[1:])
		spans = {}
		for report in reports:
		    assert report["total"]["ns"] > 0
		    for s in report["spans"]:
		        if s["span_id"]:
		            spans[s["span_id"]] = spans.get(s["span_id"], 0) + s["ns"]
		there = {s: of["ns"] for s, of in double["spans"].items()}
		assert len(spans) > 3
		assert spans == there, spans.items() ^ there.items()
	END
}

# Profiles that the exporter had not sent when the host ended come soon after.
expect_equal()
{
	poll_until 20 is_equal "$1" || fail "$1: not the same by both ways: $(<"$WORK/$1.differs")"
	expect_clean_double
}

double_start --ack-delay 0 --store "$WORK/store"
host server SPANPROF_SERVER_ADDRESS="$DOUBLE_URL" SPANPROF_PROTOCOL=otlp
expect_equal server
expect "$WORK/server.json" 'all(len(s["trace_id"]) == 32 for s in d["spans"].values())'
grep -qF '"k8s.pod.name":"pod-1"' "$WORK"/store/*.json || fail 'the resource is not whole'
grep -qF '"cloud.region":"north"' "$WORK"/store/*.json || fail 'the resource is not whole'

double_start --ack-delay 0
host folder SPANPROF_SERVER_ADDRESS="$DOUBLE_URL" SPANPROF_OUTPUT_FORMAT=otlp
expect_equal folder
[[ -n $(find "$WORK/folder" -name '*.otlp.gz') ]] || fail 'no file in OTLP'

# OpenTelemetry's variables, and no compression.
double_start --ack-delay 0 --token secret --log "$WORK/log"
host variables OTEL_EXPORTER_OTLP_PROFILES_ENDPOINT="$DOUBLE_URL/v1development/profiles" \
	OTEL_EXPORTER_OTLP_ENDPOINT=http://nowhere.invalid \
	OTEL_EXPORTER_OTLP_HEADERS='authorization=Bearer%20secret' OTEL_EXPORTER_OTLP_COMPRESSION=none
expect_equal variables
double_start --ack-delay 0 --token secret
host base OTEL_EXPORTER_OTLP_ENDPOINT="$DOUBLE_URL/" SPANPROF_PROTOCOL=otlp \
	OTEL_EXPORTER_OTLP_PROFILES_HEADERS='authorization=Bearer secret'
expect_equal base
