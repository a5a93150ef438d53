#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# OTLP beside others' programs, "make otlp": our .proto against the release that it names; OpenTelemetry's checker
# (profcheck) on random profiles, on those of hosts and of the demo, and on each seeded fault; a collector between a host
# and a server, which has to have the same nanoseconds of each span as pprof files of the same samples, for CPU,
# off-CPU and wall time. PYROSCOPE_URL names a real server, else the double is there. PROFCHECK and COLLECTOR name
# programs that are there already; what cannot be built is left out.
# Runs alone: it takes all processors for minutes.
url=${PYROSCOPE_URL:-} profcheck=${PROFCHECK:-} collector=${COLLECTOR:-} hosts=${OTLP_HOSTS:-10000}
# shellcheck disable=SC2119
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need go python3 curl
readonly TOOLS=$ROOT/build/otlp COLLECTOR_RELEASE=0.165.0 PROTO_RELEASE=1.11.0 PROFILES_RELEASE=0.4.0
export SPANPROF_OFF_CPU=true SPANPROF_WALL=true SPANPROF_UPLOAD_INTERVAL=1s OTEL_SERVICE_NAME=otlp-$$
mkdir -p "$TOOLS"

# Fields of our .proto that upstream does not have so; google.rpc.Status is not among those files.
fields()
{
	mkdir "$WORK/fields"
	cp test/otlp/fields.go "$WORK/fields"
	(
		cd "$WORK/fields" && go mod init fields && go mod edit \
			-require "go.opentelemetry.io/proto/otlp@v$PROTO_RELEASE" \
			-require "go.opentelemetry.io/proto/otlp/profiles/v1development@v$PROFILES_RELEASE" \
			-require "go.opentelemetry.io/proto/otlp/collector/profiles/v1development@v$PROFILES_RELEASE" &&
			go run -mod=mod .
	) 2>"$WORK/fields.err" | sort >"$WORK/upstream" || return 1
	awk '/^message/ { message = $2 }
		/^ +[a-z].* = [0-9]+;/ { sub(/;.*/, ""); sub(/^ +/, ""); print message, $0 }' \
		export/proto/otlp.proto | grep -v '^Status ' | sort >"$WORK/ours"
	grep -q "opentelemetry-proto $PROTO_RELEASE " export/proto/otlp.proto ||
		fail "otlp.proto names another release than $PROTO_RELEASE"
	[[ -z $(comm -23 "$WORK/ours" "$WORK/upstream") ]] ||
		fail "not so upstream: $(comm -23 "$WORK/ours" "$WORK/upstream")"
	echo "fields: $(wc -l <"$WORK/ours") as in opentelemetry-proto $PROTO_RELEASE"
}

# judge NAME FILE...: each passes, unpacked.
judge()
{
	local name=$1 file

	shift
	for file; do
		[[ $file != *.gz ]] || gunzip -k "$file"
		"$profcheck" -check-dupes -check-orphans "${file%.gz}" >"$WORK/judged" 2>&1 ||
			fail "profcheck refuses $file: $(head -c 1000 "$WORK/judged")"
	done
	echo "profcheck: $# profiles of $name pass"
}

conformance()
{
	local file

	mkdir "$WORK/random" "$WORK/hosts"
	OTLP_FOLDER=$WORK/random OTLP_HOSTS=$hosts build/release/test/hostile/test_otlp >"$WORK/random.log" ||
		fail "$(tail -n 20 "$WORK/random.log")"
	judge 'random samples' "$WORK"/random/good-*
	for file in "$WORK"/random/fault-*; do
		if "$profcheck" -check-dupes -check-orphans "$file" >/dev/null 2>&1; then
			fail "profcheck passes $file"
		fi
	done
	echo "profcheck: $(find "$WORK/random" -name 'fault-*' | wc -l) seeded faults fail"
	for host in 'spans 900' 'waits 200' 'threads' 'forks' 'requests 900' 'labels'; do
		# shellcheck disable=SC2086
		run_under "${host%% *}" SPANPROF_OUTPUT_DIR="$WORK/hosts" SPANPROF_OUTPUT_FORMAT=otlp \
			SPANPROF_THREAD_NAME=true OTELC_SPANS_JSON=/dev/null "$HOSTS"/$host
	done
	judge hosts "$WORK"/hosts/*.otlp.gz
}

# A double or the server gets what the collector hands on of what the host sends to it.
through_collector()
{
	local port

	# A collector writes references into the resource, and leaves texts that nothing refers to.
	[[ -n $url ]] || double_start --ack-delay 0 --no-strict
	port=$(refused_port)
	PYROSCOPE_URL=${url:-$DOUBLE_URL} COLLECTOR_LISTEN=127.0.0.1:$port "$collector" \
		--config scripts/deploy/collector.yaml --feature-gates=service.profilesSupport \
		>"$WORK/collector.log" 2>&1 &
	collector_pid=$!
	poll_until 60 curl -s -o /dev/null "http://127.0.0.1:$port" ||
		fail "the collector does not listen: $(tail -n 5 "$WORK/collector.log")"
	began=$(now_ms)
	mkdir "$WORK/files"
	run_under through SPANPROF_OUTPUT_DIR="$WORK/files" SPANPROF_PROTOCOL=otlp OTELC_SPANS_JSON=/dev/null \
		SPANPROF_SERVER_ADDRESS="http://127.0.0.1:$port" SPANPROF_FLUSH_TIMEOUT=10s "$HOSTS/spans" 900
	expect_rc through 0
	expect_silent through
	poll_until 60 is_there "$began" || fail "not the same behind the collector: $(<"$WORK/differs")"
	kill "$collector_pid"
	echo "collector $COLLECTOR_RELEASE, ${url:-the double}: $(<"$WORK/said")"
}

# is_there BEGAN: the server says of each span and type what the files say.
is_there()
{
	for type in cpu off_cpu wall; do
		build/spanprof-report --json --type "$type" "$WORK/files" >"$WORK/report.$type" || return 1
	done
	python3 test/otlp/ask.py "${url:-$DOUBLE_URL}" "$OTEL_SERVICE_NAME" "$1" "$WORK"/report.{cpu,off_cpu,wall} \
		>"$WORK/said" 2>"$WORK/differs"
}

fields || left_out "the module proxy has no opentelemetry-proto: $(tail -n 1 "$WORK/fields.err")"
[[ -n $profcheck ]] ||
	if GOBIN=$TOOLS go install github.com/open-telemetry/sig-profiling/profcheck/cmd/profcheck@latest 2>"$WORK/err"; then
		profcheck=$TOOLS/profcheck
	else
		left_out "no profcheck: $(tail -n 1 "$WORK/err")"
	fi
[[ -z $profcheck ]] || conformance
if [[ -z $collector ]]; then
	cat >"$WORK/builder.yaml" <<-END
		dist: {name: otelcol, output_path: $TOOLS/otelcol}
		receivers: [{gomod: go.opentelemetry.io/collector/receiver/otlpreceiver v$COLLECTOR_RELEASE}]
		exporters: [{gomod: go.opentelemetry.io/collector/exporter/otlphttpexporter v$COLLECTOR_RELEASE}]
	END
	if GOBIN=$TOOLS go install "go.opentelemetry.io/collector/cmd/builder@v$COLLECTOR_RELEASE" 2>"$WORK/err" &&
		"$TOOLS/builder" --config "$WORK/builder.yaml" >"$WORK/err" 2>&1; then
		collector=$TOOLS/otelcol/otelcol
	else
		left_out "no collector: $(tail -n 1 "$WORK/err")"
	fi
fi
[[ -z $collector ]] || through_collector
