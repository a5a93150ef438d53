#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# OTLP beside others' programs, "make otlp": our .proto against the release that it names; OpenTelemetry's checker
# (profcheck) on random profiles, on those of hosts, of the matrix, of programs of the corpus and of the demo, and on each
# seeded fault; a server, and a collector before it, which has to have the same nanoseconds of each span as pprof files of
# the same samples, for CPU, off-CPU and wall time, and the same bytes of memory. PYROSCOPE names a real server's program, PYROSCOPE_URL one that runs;
# else the double is there. PROFCHECK and COLLECTOR name programs that are there already; what cannot be built is left
# out. OTLP_PARTS are the parts to run, of fields, random, hosts, matrix, corpus, demo and servers.
# Runs alone: it takes all processors for minutes.
server=${PYROSCOPE_URL:-} pyroscope=${PYROSCOPE:-} profcheck=${PROFCHECK:-} collector=${COLLECTOR:-} hosts=${OTLP_HOSTS:-10000}
parts=${OTLP_PARTS:-fields random hosts matrix corpus demo servers}
# shellcheck disable=SC2119
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash
# shellcheck source=test/pyroscope/start.bash
source test/pyroscope/start.bash

need go python3 curl
readonly TOOLS=$ROOT/build/otlp COLLECTOR_RELEASE=0.165.0 PROTO_RELEASE=1.11.0 PROFILES_RELEASE=0.4.0
export SPANPROF_OFF_CPU=true SPANPROF_WALL=true SPANPROF_UPLOAD_INTERVAL=1s
mkdir -p "$TOOLS"

# Fields of our .proto that upstream does not have so.
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
		export/proto/otlp.proto | sort >"$WORK/ours"
	grep -q "opentelemetry-proto $PROTO_RELEASE " export/proto/otlp.proto ||
		fail "otlp.proto names another release than $PROTO_RELEASE"
	[[ -z $(comm -23 "$WORK/ours" "$WORK/upstream") ]] ||
		fail "not so upstream: $(comm -23 "$WORK/ours" "$WORK/upstream")"
	echo "fields: $(wc -l <"$WORK/ours") as in opentelemetry-proto $PROTO_RELEASE"
}

# of_random: each of them, and none of those with a fault.
of_random()
{
	local file

	OTLP_FOLDER=$WORK/random OTLP_HOSTS=$hosts build/release/test/hostile/test_otlp >"$WORK/random.log" ||
		fail "$(tail -n 20 "$WORK/random.log")"
	for file in "$WORK"/random/fault-*; do
		if passes "$file"; then
			fail "profcheck passes $file"
		fi
	done
	echo "profcheck: $(find "$WORK/random" -name 'fault-*' | wc -l) seeded faults fail"
	rm "$WORK"/random/{fault,ours}-*
}

# under FOLDER COMMAND...: leaves its profiles there.
under()
{
	local folder=$1

	shift
	run_under under SPANPROF_OUTPUT_DIR="$folder" SPANPROF_OUTPUT_FORMAT=otlp SPANPROF_THREAD_NAME=true \
		OTELC_SPANS_JSON=/dev/null "$@"
}

of_hosts()
{
	local host

	for host in 'spans 900' 'waits 1 60' threads 'forks 3 100 end' 'requests 900' 'labels spans'; do
		# shellcheck disable=SC2086
		under "$WORK/hosts/${host%% *}" "$HOSTS"/$host
		[[ -n $(find "$WORK/hosts/${host%% *}" -name '*.otlp.gz') ]] || fail "no profile of $host"
	done
}

# Each build of an SDK of the matrix, and each beside it.
of_matrix()
{
	local host story

	mkdir "$WORK/told"
	for story in nested 'first spans at once' 'values for labels'; do
		for host in "$TEST_LIBS"/{conformance/*/lazy,otelcpp/*/stories}; do
			under "$WORK/matrix" SPANPROF_SPAN_LABELS=test.value "$host" --story "$story" --samples 3 "$WORK/told"
		done
	done
}

# One round of each program that is here and no server, with the paths that the corpus has.
of_corpus()
(
	local name

	# shellcheck source=test/corpus/common.bash
	source test/corpus/common.bash
	# shellcheck source=test/corpus/programs.bash
	source test/corpus/programs.bash
	make_data 100000
	for name in "${!WORDS[@]}"; do
		command -v "${name%_jit}" >/dev/null || continue
		mkdir "$WORK/corpus/$name"
		(cd "$DATA" && timeout 100 env CORPUS="$CORPUS" ROOT="$ROOT" ROUND=1 SPANPROF_PROFILE=always \
			SPANPROF_OUTPUT_DIR="$WORK/corpus/$name" SPANPROF_OUTPUT_FORMAT=otlp SPANPROF_FLUSH_TIMEOUT=30s \
			LD_PRELOAD="$PRELOAD" bash -c "${WORDS[$name]}") >"$WORK/$name.log" 2>&1 || true
		# If a program was killed after its time, its exporter still sends its profile.
		poll_until 30 compgen -G "$WORK/corpus/$name/*.otlp.gz" >/dev/null ||
			fail "no profile of $name: $(<"$WORK/$name.log")"
		echo "corpus: $name"
	done
)

# On a busy machine the demo finds that threads waited for a processor as well, which is not asked here.
of_demo()
{
	SPANPROF_OUTPUT_FORMAT=otlp SPANPROF_DEMO_SECONDS=10 SPANPROF_DEMO_OUT=$WORK/demo.out \
		bash test/rideshare/demo.sh >"$WORK/demo.log" 2>&1 || true
	! grep 'pb\.gz' "$WORK/demo.log" || fail "the demo speaks of files that are not there"
	mv "$WORK"/demo.out/profiles/* "$WORK/demo" || fail "$(tail -n 20 "$WORK/demo.log")"
}

# passes FILE: profcheck passes it, or says of link_table[0] alone that it is not empty. The specification wants zeroes of
# full length there since 2026-05, the checker of 2026-08 does not.
passes()
{
	"$profcheck" -check-dupes -check-orphans "$1" >"$WORK/judged" 2>&1 && return
	[[ $(grep -c 'link_table: must have zero value' "$WORK/judged") == 1 && $(wc -l <"$WORK/judged") == 1 ]]
}

# judge PART: all its profiles pass, unpacked.
judge()
{
	local file n=0

	mkdir "$WORK/$1"
	"of_$1"
	while IFS= read -r file; do
		[[ $file != *.gz ]] || gunzip "$file"
		passes "${file%.gz}" ||
			fail "profcheck refuses $file of $1: $(head -c 1000 "$WORK/judged")"
		n=$((n + 1))
	done < <(find "$WORK/$1" -name '*.otlp' -o -name '*.otlp.gz')
	((n > 0)) || fail "no profile of $1"
	echo "profcheck: $n profiles of $1 pass"
}

# sent HOW URL TYPES VARIABLE=VALUE... COMMAND...: what it sends there in OTLP the server has, of each span and type, as
# pprof files of the same samples have it.
sent()
{
	local how=$1 url=$2 types=$3 files=$WORK/files.$1 name=otlp-$$-$1 began

	shift 3
	began=$(now_ms)
	mkdir "$files"
	run_under "$how" SPANPROF_OUTPUT_DIR="$files" SPANPROF_PROTOCOL=otlp OTELC_SPANS_JSON=/dev/null \
		OTEL_SERVICE_NAME="$name" SPANPROF_SERVER_ADDRESS="$url" SPANPROF_FLUSH_TIMEOUT=10s "$@"
	expect_rc "$how" 0
	expect_silent "$how"
	poll_until 60 is_there "$files" "$name" "$began" "$types" || fail "$how: not the same: $(<"$WORK/differs")"
	echo "$how: $(<"$WORK/said")"
}

is_there()
{
	local reports=() type

	for type in $4; do
		build/spanprof-report --json --type "$type" "$1" >"$WORK/report.$type" || return 1
		reports+=("$WORK/report.$type")
	done
	python3 test/pyroscope/ask.py same otlp "$server" "$2" "$3" 0 "${reports[@]}" >"$WORK/said" 2>"$WORK/differs"
}

# all_sent HOW URL: time, and memory.
all_sent()
{
	local memory=(LD_PRELOAD="$SO ${SO%/*}/libspanprof-alloc.so" SPANPROF_ALLOC=true SPANPROF_ALLOC_INTERVAL=131072)

	sent "$1" "$2" "cpu off_cpu wall" "$HOSTS/spans" 900
	sent "$1.allocated" "$2" alloc_space "${memory[@]}" "$HOSTS/allocs" truth 4
	sent "$1.in_use" "$2" "alloc_space inuse_space" "${memory[@]}" "$HOSTS/leaks"
}

through_collector()
{
	local port

	port=$(refused_port)
	PYROSCOPE_URL=$server COLLECTOR_LISTEN=127.0.0.1:$port "$collector" \
		--config scripts/deploy/collector.yaml --feature-gates=service.profilesSupport \
		>"$WORK/collector.log" 2>&1 &
	STARTED+=("$!")
	poll_until 60 curl -s -o /dev/null "http://127.0.0.1:$port" ||
		fail "the collector does not listen: $(tail -n 5 "$WORK/collector.log")"
	all_sent collector "http://127.0.0.1:$port"
}

servers()
{
	if [[ -n $pyroscope && -z $server ]]; then
		pyroscope_start "$pyroscope"
		server=$PYROSCOPE_HERE
	fi
	if [[ -z $server ]]; then
		left_out "PYROSCOPE and PYROSCOPE_URL are not set"
		# A collector writes references into the resource, and leaves texts that nothing refers to.
		double_start --ack-delay 0 --no-strict
		server=$DOUBLE_URL
	fi
	all_sent server "$server"
	[[ -z $collector ]] || through_collector
}

is_wanted()
{
	[[ " $parts " == *" $1 "* ]]
}

if is_wanted fields; then
	fields || left_out "the module proxy has no opentelemetry-proto: $(tail -n 1 "$WORK/fields.err")"
fi
[[ -n $profcheck ]] ||
	if GOBIN=$TOOLS go install github.com/open-telemetry/sig-profiling/profcheck/cmd/profcheck@latest 2>"$WORK/err"; then
		profcheck=$TOOLS/profcheck
	else
		left_out "no profcheck: $(tail -n 1 "$WORK/err")"
	fi
for part in random hosts matrix corpus demo; do
	[[ -z $profcheck ]] || ! is_wanted "$part" || judge "$part"
done
is_wanted servers || exit 0
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
servers
