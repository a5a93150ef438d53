#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# "make push-real": programs push to a real Pyroscope, and the server has the same time of each span, and the same sums, as
# files of the same samples: after many forked children, behind a forwarder without a server, with a certificate that is
# refused, a page for signing in, a clock that is ahead, several profiles in one push, a restart of the server. Samples that
# the server lacks were reported as lost. PYROSCOPE names a program that was built by "go build ./cmd/pyroscope" in its
# sources; PYROSCOPE_URL names a running server, with PYROSCOPE_TENANT=name if it has tenants. Without either, the double is
# the server. REAL_PARTS are the parts to run; "costs" makes the table in README.md, and needs go.
# Runs alone, because its programs need their time.

# The library unsets variables that begin like ours.
server=${PYROSCOPE_URL:-} program=${PYROSCOPE:-}
export TENANT=${PYROSCOPE_TENANT:-}
parts=${REAL_PARTS:-read_back types children prefork labels latency links forwarder certificate page clock together restart}
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash
# shellcheck source=test/e2e/tls.bash
source test/e2e/tls.bash
# shellcheck source=test/e2e/read_back.bash
source test/e2e/read_back.bash
# shellcheck source=test/pyroscope/start.bash
source test/pyroscope/start.bash

need curl python3
readonly ASK=$ROOT/test/pyroscope/ask.py
readonly ALLOC=(LD_PRELOAD="$SO:${SO%/*}/libspanprof-alloc.so" SPANPROF_ALLOC=true SPANPROF_ALLOC_INTERVAL=131072)

is_wanted()
{
	[[ " $parts " == *" $1 "* ]]
}

# A host that comes back to its time while a server is away sends more often.
readonly -a OFTEN=(SPANPROF_UPLOAD_INTERVAL=1s SPANPROF_FLUSH_TIMEOUT=20s)

# set_up NAME ADDRESS: sets VARIABLES for programs that push there, and also write files of the same samples and the status of
# each process.
set_up()
{
	BEGAN=$(now_ms)
	mkdir "$WORK/$1.files" "$WORK/$1.status"
	VARIABLES=(SPANPROF_SERVER_ADDRESS="$2" SPANPROF_OUTPUT_DIR="$WORK/$1.files" SPANPROF_STATUS_FILE="$WORK/$1.status/%p"
		SPANPROF_TENANT_ID="$TENANT" OTEL_SERVICE_NAME="real-$$-$1" OTELC_SPANS_JSON="$WORK/$1.spans")
}

# host NAME ADDRESS STATUS [VARIABLE=VALUE]... COMMAND...
host()
{
	local name=$1 address=$2 status=$3

	shift 3
	set_up "$name" "$address"
	run_under "$name" "${VARIABLES[@]}" "$@"
	expect_rc "$name" "$status"
}

# host_start NAME ADDRESS [VARIABLE=VALUE]... COMMAND...: beside the script; host_end NAME STATUS waits for it.
host_start()
{
	local name=$1 address=$2

	shift 2
	set_up "$name" "$address"
	env LD_PRELOAD="$SO" "${VARIABLES[@]}" "$@" >"$WORK/$name.out" 2>"$WORK/$name.err" &
	HOST_PID=$!
	STARTED+=("$HOST_PID")
}

host_end()
{
	local rc=0

	wait "$HOST_PID" || rc=$?
	echo "$rc" >"$WORK/$1.rc"
	expect_rc "$1" "$2"
}

# of_status NAME EXPRESSION: the sum of an expression of a status d over all processes.
of_status()
{
	python3 -c 'import glob, json, sys
print(sum(int(eval(sys.argv[2], {"d": json.load(open(path))})) for path in glob.glob(sys.argv[1] + "/[0-9]*")))' "$WORK/$1.status" "$2"
}

is_at_least()
{
	(($(of_status "$1" "$2" 2>/dev/null || echo 0) >= $3))
}

is_there()
{
	local name=$1 lost type reports=()

	lost=$(of_status "$name" 'd["loss"]["samples_in_lost_batches"]') || return 1
	for type in $2; do
		build/spanprof-report --json --type "$type" "$WORK/$name.files" >"$WORK/$name.report.$type" || return 1
		reports+=("$WORK/$name.report.$type")
	done
	python3 "$ASK" same push "$server" "real-$$-$name" "$BEGAN" "$lost" "${reports[@]}" >"$WORK/said" 2>"$WORK/differs"
}

# same NAME TYPES: the server has the same as the files, except for samples that were reported as lost.
same()
{
	poll_until 60 is_there "$1" "$2" || fail "$1: not the same: $(tail -n 1 "$WORK/differs")"
	echo "$1: $(<"$WORK/said")"
}

# nothing_lost NAME TYPES
nothing_lost()
{
	same "$1" "$2"
	(($(of_status "$1" 'd["loss"]["samples_in_lost_batches"]') == 0)) || fail "$1: something was lost: $(<"$WORK/$1.err")"
}

# requests: how many pushes the server has received; 0 if it does not show that.
requests()
{
	curl -s "$server/metrics" | awk '/^pyroscope_request_duration_seconds_count\{.*[Pp]usher/ { n += $NF } END { print n + 0 }'
}

of_types()
{
	local before

	before=$(requests)
	host types "$server" 0 "${OFTEN[@]}" SPANPROF_OFF_CPU=true SPANPROF_WALL=true "$HOSTS/spans" 3000
	nothing_lost types 'cpu off_cpu wall'
	echo "types: $(find "$WORK/types.files" -name '*.pb.gz' | wc -l) profiles in $(($(requests) - before)) pushes"
	host allocated "$server" 0 "${ALLOC[@]}" "$HOSTS/allocs" truth 4
	nothing_lost allocated alloc_space
	host in_use "$server" 0 "${ALLOC[@]}" "$HOSTS/leaks"
	nothing_lost in_use 'alloc_space inuse_space'
}

# At default settings.
of_children()
{
	# shellcheck disable=SC2016
	host children "$server" 12 bash -c 'echo | "$@"' bash "$HOSTS/forks" "${REAL_CHILDREN:-300}" 15 end
	nothing_lost children cpu
	echo "children: series, pids: $(python3 "$ASK" series "$server" "real-$$-children" "$BEGAN" pid)"
}

of_prefork()
{
	host prefork "$server" 12 "$HOSTS/prefork" never "${REAL_WORKERS:-100}" 40
	nothing_lost prefork cpu
	expect_workers
}

# Each worker has its own span.
expect_workers()
{
	expect "$WORK/prefork.report.cpu" "len([s for s in d['spans'] if s['span_id']]) >= ${REAL_WORKERS:-100}"
}

# The queries of the manual, where a label is left out.
of_labels()
{
	local series

	# shellcheck disable=SC2016
	host no_pid "$server" 12 SPANPROF_LABELS=pid=,hostname= bash -c 'echo | "$@"' bash "$HOSTS/forks" 40 15 end
	nothing_lost no_pid cpu
	series=$(python3 "$ASK" series "$server" "real-$$-no_pid" "$BEGAN" pid hostname)
	[[ $series == *' 0 0' ]] || fail "no pid: $series series, pids, hosts"
	host no_span "$server" 19 SPANPROF_SPAN_ID_SCOPE=none "$HOSTS/requests" 2000
	nothing_lost no_span cpu
	expect "$WORK/no_span.report.cpu" "all(s['span_id'] == s['trace_id'] == '' for s in d['spans'])"
	echo "labels: series, pids, hosts without these labels: $series"
}

# Slow requests against the rest, by the label: the report of the files and the server say the same.
of_latency()
{
	local class reports=()

	host latency "$server" 0 SPANPROF_SPAN_LATENCY=true SPANPROF_SPAN_ID_SCOPE=slow SPANPROF_UPLOAD_INTERVAL=10m \
		"$HOSTS/latencies" 200
	nothing_lost latency cpu
	for class in p50 p90 p99 slow; do
		build/spanprof-report --json --latency "$class" "$WORK/latency.files" >"$WORK/latency.$class"
		reports+=("$class=$WORK/latency.$class")
	done
	python3 "$ASK" latency "$server" "real-$$-latency" "$BEGAN" "$([[ -n $program ]] && echo 1 || echo 0)" "${reports[@]}"
}

# The links of spans lead to their CPU time, and to their memory where they have allocated and used none.
of_links()
{
	local preset

	for preset in grafana-drilldown grafana-explore; do
		host "links.$preset" "$server" 0 SPANPROF_PROFILE_URL="$preset" "$HOSTS/spans" 900
		nothing_lost "links.$preset" cpu
		python3 "$ASK" links "$server" "$WORK/links.$preset.spans" "$WORK/links.$preset.report.cpu"
		host "links.memory.$preset" "$server" 0 "${ALLOC[@]}" SPANPROF_PROFILE_URL="$preset" "$HOSTS/leaks_sdk"
		same "links.memory.$preset" alloc_space
		build/spanprof-report --json "$WORK/links.memory.$preset.files" >"$WORK/links.report.cpu" || echo '{"spans":[]}' \
			>"$WORK/links.report.cpu"
		python3 "$ASK" links "$server" "$WORK/links.memory.$preset.spans" "$WORK/links.memory.$preset.report.alloc_space" \
			"$WORK/links.report.cpu"
	done
}

# comes_back NAME [OPTION VALUE]...: a stand-in before the server, with these options, makes pushes fail for a while.
comes_back()
{
	local name=$1

	shift
	DOUBLE_URL=$server
	touch "$WORK/away"
	front_start --away "$WORK/away" "$@"
	host_start "$name" "$FRONT_URL" "${OFTEN[@]}" "$HOSTS/requests" 15000
	poll_until 30 is_at_least "$name" 'd["push"]["attempts"]' 3 || fail "$name: no tries: $(<"$WORK/$name.err")"
	rm "$WORK/away"
	host_end "$name" 19
}

# On a busy machine a forwarder may need longer to close than the exporter waits with the body of its first push.
of_forwarder()
{
	comes_back forwarder
	same forwarder cpu
	(($(of_status forwarder 'd["loss"]["batches_unanswered"]') <= 1)) || fail "forwarder: $(<"$WORK/forwarder.err")"
}

of_page()
{
	comes_back page --page 'Sign in to Example'
	nothing_lost page cpu
	grep -q 'spanprof\[.*push failed.*Sign in to Example' "$WORK/page.err" || fail "the page is not told: $(<"$WORK/page.err")"
}

# TLS 1.3 refuses a certificate of another authority only after the request was sent. Then the right one replaces it.
of_certificate()
{
	DOUBLE_URL=$server
	certificate good 'DNS:localhost'
	certificate us 'DNS:us'
	openssl req -x509 "${EC[@]}" -keyout "$WORK/other.key" -out "$WORK/other.crt" -subj /CN=other -days 2 2>/dev/null
	cat "$WORK/other.crt" "$WORK/other.key" >"$WORK/client.pem"
	front_start --cert "$WORK/good.pem" --client-ca "$CA" --version 1.3
	host_start certificate "$FRONT_URL" "${OFTEN[@]}" SPANPROF_TLS_CA_FILE="$CA" SPANPROF_TLS_CERT_FILE="$WORK/client.pem" \
		"$HOSTS/requests" 15000
	poll_until 30 is_at_least certificate 'd["push"]["attempts"]' 3 || fail "certificate: no tries: $(<"$WORK/certificate.err")"
	cp "$WORK/us.pem" "$WORK/client.new"
	mv "$WORK/client.new" "$WORK/client.pem"
	host_end certificate 19
	nothing_lost certificate cpu
}

# The exporter's clock is ten minutes ahead and a little more, so that the server refuses each profile at first. The
# profiles of the last seconds are still refused when the program ends, and are reported as lost.
of_clock()
{
	local library so

	library=/usr/lib/$(gcc -print-multiarch)/faketime/libfaketime.so.1
	[[ -e $library ]] || {
		left_out "there is no libfaketime"
		return 0
	}
	cat >"$WORK/ahead" <<-END
		#!/bin/sh
		LD_PRELOAD=$library FAKETIME=+608 DONT_FAKE_MONOTONIC=1 FAKETIME_NO_CACHE=1 NO_FAKE_STAT=1 exec "$EXPORTER" "\$@"
	END
	chmod 755 "$WORK/ahead"
	so=$(object_with "$WORK/ahead.objects" "$WORK/ahead")
	host clock "$server" 19 "${OFTEN[@]}" SPANPROF_FLUSH_TIMEOUT=1s LD_PRELOAD="$so" "$HOSTS/requests" 25000
	same clock cpu
	(($(of_status clock 'd["samples"]["sent"]') > $(of_status clock 'd["samples"]["put"]') / 3)) ||
		fail "clock: not tried again: $(<"$WORK/clock.err")"
	echo "clock: $(grep -o 'spanprof\[.*' "$WORK/clock.err" | head -n 1)"
}

# Profiles of several types that waited for the server are sent in few pushes.
of_together()
{
	local profiles pushes

	DOUBLE_URL=$server
	touch "$WORK/away"
	front_start --away "$WORK/away" --count "$WORK/together.count"
	host_start together "$FRONT_URL" "${OFTEN[@]}" SPANPROF_OFF_CPU=true SPANPROF_WALL=true "$HOSTS/requests" 15000
	poll_until 30 is_at_least together 'd["push"]["attempts"]' 3 || fail "together: no tries: $(<"$WORK/together.err")"
	rm "$WORK/away"
	host_end together 19
	same together 'cpu off_cpu wall'
	profiles=$(find "$WORK/together.files" -name '*.pb.gz' | wc -l)
	pushes=$(wc -l <"$WORK/together.count")
	((pushes < profiles)) || fail "together: $profiles profiles in $pushes pushes"
	echo "together: $profiles profiles in $pushes pushes"
}

# The server is stopped and started again while a host sends. The server still has the profiles that it took before.
of_restart()
{
	local tries

	[[ -n ${PYROSCOPE_PID:-} ]] || {
		left_out "PYROSCOPE is not set, so no server can be restarted"
		return 0
	}
	host_start restart "$server" "${OFTEN[@]}" "$HOSTS/requests" 25000
	poll_until 30 is_at_least restart 'd["samples"]["sent"]' 1 || fail "restart: nothing sent: $(<"$WORK/restart.err")"
	pyroscope_stop
	tries=$(of_status restart 'd["push"]["attempts"]')
	poll_until 30 is_at_least restart 'd["push"]["attempts"]' $((tries + 2)) || fail "restart: no tries: $(<"$WORK/restart.err")"
	pyroscope_start "$program"
	host_end restart 19
	same restart cpu
	grep -q 'spanprof\[.*push failed' "$WORK/restart.err" || fail "restart: the outage is not told: $(<"$WORK/restart.err")"
	echo "restart: $(of_status restart 'd["loss"]["samples_in_lost_batches"]') samples lost, all told"
}

# row NAME SERVICE TEXT: prints a row of the table.
row()
{
	local series bytes

	series=$(python3 "$ASK" series "$server" "$2" "$BEGAN")
	bytes=$(awk '{ n += $1 } END { print int(n / 1000) }' "$WORK/$1.count")
	echo "| $3 | $series | $bytes |"
}

version()
{
	curl -sf "$server/api/v1/status/buildinfo" | python3 -c 'import json, sys; print(json.load(sys.stdin)["data"]["version"])' ||
		echo 'of an unknown version'
}

# The same orders by a program in C++ under the profiler, and by one in Go with the clients of Pyroscope and OpenTelemetry.
of_costs()
{
	local seconds=60 name pids=() labels

	need go
	mkdir "$WORK/go"
	cp test/pyroscope/load.go "$WORK/go/main.go"
	(cd "$WORK/go" && go mod init load && go get github.com/grafana/otel-profiling-go@v0.7.0 \
		github.com/grafana/pyroscope-go@v1.5.0 && go mod tidy && go build -o load .) >"$WORK/go.log" 2>&1 ||
		fail "no program in Go: $(tail -n 3 "$WORK/go.log")"
	DOUBLE_URL=$server BEGAN=$(now_ms)
	for name in all no_pid no_trace no_ids slow_ids go; do
		case $name in
		all | go) labels=() ;;
		no_pid) labels=('SPANPROF_LABELS=pid=,hostname=') ;;
		no_trace) labels=(SPANPROF_TRACE_ID=false) ;;
		no_ids) labels=(SPANPROF_SPAN_ID_SCOPE=none) ;;
		slow_ids) labels=(SPANPROF_SPAN_ID_SCOPE=slow) ;;
		esac
		front_start --count "$WORK/$name.count"
		if [[ $name == go ]]; then
			env SERVER="$FRONT_URL" SERVICE="costs-$$-go" "$WORK/go/load" "$seconds" >"$WORK/$name.out" 2>&1 &
		else
			env LD_PRELOAD="$SO" SPANPROF_SERVER_ADDRESS="$FRONT_URL" OTEL_SERVICE_NAME="costs-$$-$name" "${labels[@]}" \
				"$TEST_LIBS/load" "$seconds" >"$WORK/$name.out" 2>&1 &
		fi
		pids+=("$!")
		STARTED+=("$!")
	done
	for name in "${pids[@]}"; do
		wait "$name" || fail "costs: a program failed: $(cat "$WORK"/*.out)"
	done
	sleep 3
	{
		echo "$(date -u +%Y-%m-%d), Pyroscope $(version), $(<"$WORK/all.out"):"
		echo
		echo '| one minute | series | kB sent |'
		echo '|---|---|---|'
		row all "costs-$$-all" 'the profiler'
		row no_pid "costs-$$-no_pid" '`SPANPROF_LABELS=pid=,hostname=`'
		row no_trace "costs-$$-no_trace" '`SPANPROF_TRACE_ID=false`'
		row no_ids "costs-$$-no_ids" '`SPANPROF_SPAN_ID_SCOPE=none`'
		row slow_ids "costs-$$-slow_ids" '`SPANPROF_SPAN_ID_SCOPE=slow`'
		row go "costs-$$-go" 'otel-profiling-go 0.7.0 with pyroscope-go 1.5.0, CPU time alone'
	} >"$WORK/table"
	cat "$WORK/table"
	python3 - "$ROOT/test/pyroscope/README.md" "$WORK/table" <<-'END'
		import sys
		path, table = sys.argv[1:]
		begin, end = "<!-- costs:begin -->\n", "<!-- costs:end -->\n"
		with open(path, encoding="utf-8") as file:
		    before, rest = file.read().split(begin)
		with open(table, encoding="utf-8") as file, open(path, "w", encoding="utf-8") as out:
		    out.write(before + begin + file.read() + end + rest.split(end)[1])
	END
}

if [[ -n $program && -z $server ]]; then
	pyroscope_start "$program"
	server=$PYROSCOPE_HERE
fi
if [[ -z $server ]]; then
	left_out "PYROSCOPE and PYROSCOPE_URL are not set"
	# shellcheck disable=SC2119
	double_start
	server=$DOUBLE_URL
fi
server=${server%/}
curl -sS --max-time 10 -o /dev/null "$server/ready" || fail "nothing answers at $server"
DOUBLE_URL=$server
! is_wanted read_back || read_back read_back
for part in types children prefork labels latency links forwarder certificate page clock together restart costs; do
	! is_wanted "$part" || "of_$part"
done
