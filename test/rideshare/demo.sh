#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What "make demo" runs: the ride-sharing server under the preloaded object, some load, and then the
# profile compared with what the server measured itself. Exit 0 only if they agree. Run it from the
# root of the repository after building.
#
# SPANPROF_DEMO_SECONDS  how long to send orders (default 20; fewer than 10 are too few to compare)
# PYROSCOPE_SERVER_ADDRESS, OTEL_EXPORTER_OTLP_ENDPOINT and the other variables of spanprof and of
# OpenTelemetry act on the server as usual.
set -euo pipefail

readonly BUILD=$PWD/${SPANPROF_DEMO_BUILD:-build}
readonly PROGRAMS=$BUILD/test/rideshare
readonly OUT=$BUILD/demo
readonly SECONDS_OF_LOAD=${SPANPROF_DEMO_SECONDS:-20}
server_pid=

# The names begin like spanprof's own variables, which would make it warn about them.
export -n SPANPROF_DEMO_BUILD SPANPROF_DEMO_SECONDS SPANPROF_SKIP_DEPS

say()
{
	printf '==> %s\n' "$*"
}

die()
{
	printf 'demo: FAIL: %s\n' "$*" >&2
	exit 1
}

# Without this a failing demo would leave its server behind.
stop_hard()
{
	[[ -z $server_pid ]] || kill -KILL "$server_pid" 2>/dev/null || true
}

# Calls "$@" every tenth of a second until it succeeds, for at most $1 seconds.
wait_for()
{
	local tenths=$(($1 * 10))

	shift
	until "$@"; do
		((tenths-- > 0)) || return 1
		sleep 0.1
	done
}

server_gone()
{
	! kill -0 "$server_pid" 2>/dev/null
}

port_known_or_server_gone()
{
	[[ -s $OUT/port ]] || server_gone
}

start_server()
{
	SPANPROF_OUTPUT_DIR=$OUT/profiles \
		SPANPROF_UPLOAD_INTERVAL=${SPANPROF_UPLOAD_INTERVAL:-5s} \
		SPANPROF_PROFILE_URL=${SPANPROF_PROFILE_URL:-grafana-drilldown} \
		SPANPROF_PROFILE_BASE_URL=${SPANPROF_PROFILE_BASE_URL:-http://localhost:3000} \
		OTEL_SERVICE_NAME=rideshare OTELC_SPANS_JSON=$OUT/spans.json \
		LD_PRELOAD=$BUILD/libspanprof.so \
		"$PROGRAMS/server" --port 0 --port-file "$OUT/port" --truth "$OUT/truth.json" \
		--seconds $((SECONDS_OF_LOAD + 120)) >"$OUT/server.log" 2>&1 &
	server_pid=$!
	wait_for 20 port_known_or_server_gone || die "the server does not listen"
	[[ -s $OUT/port ]] || {
		cat "$OUT/server.log" >&2
		die "the server did not start"
	}
}

stop_server()
{
	local status=0

	kill -TERM "$server_pid"
	wait_for 30 server_gone || die "the server did not end within 30 s of SIGTERM"
	wait "$server_pid" || status=$?
	server_pid=
	grep '^spanprof' "$OUT/server.log" || true
	((status == 0)) || {
		tail -n 20 "$OUT/server.log" >&2
		die "the server ended with status $status"
	}
}

report()
{
	"$BUILD/spanprof-report" --json "$@" "$OUT/profiles"
}

# draw SPAN: the pictures to open: everything, and that span against the others of its name, if there
# are any.
draw()
{
	local diff

	"$BUILD/spanprof-report" --flamegraph "$OUT/flamegraph.svg" "$OUT/profiles" >/dev/null ||
		return 1
	for diff in --diff ''; do
		"$BUILD/spanprof-report" --flamegraph "$OUT/slowest.svg" --span "$1" \
			${diff:+"$diff"} "$OUT/profiles" >/dev/null && return 0
	done
	return 1
}

compare()
{
	local slowest
	local failed=0

	report >"$OUT/report.json" || die "spanprof-report cannot read the profiles"
	"$PROGRAMS/summary" table --report "$OUT/report.json" --truth "$OUT/truth.json" \
		--spans "$OUT/spans.json" || failed=1
	slowest=$("$PROGRAMS/summary" slowest --report "$OUT/report.json" \
		--spans "$OUT/spans.json") || die "no span of the server has samples"
	report --span "$slowest" >"$OUT/slowest.json" ||
		die "spanprof-report cannot read the profile of span $slowest"
	"$PROGRAMS/summary" span --report "$OUT/slowest.json" --spans "$OUT/spans.json" \
		--id "$slowest" || failed=1
	draw "$slowest" || failed=1
	return "$failed"
}

for file in "$BUILD/libspanprof.so" "$BUILD/libspanprof-export.so" "$BUILD/spanprof-report" \
	"$PROGRAMS/server" "$PROGRAMS/loadgen" "$PROGRAMS/summary"; do
	[[ -e $file ]] || die "$file is missing; run \"make demo\""
done
[[ $SECONDS_OF_LOAD =~ ^[1-9][0-9]*$ ]] || die "SPANPROF_DEMO_SECONDS: not a number of seconds"

rm -rf "$OUT"
mkdir -p "$OUT/profiles"
trap stop_hard EXIT

say "starting the ride-sharing server with LD_PRELOAD=libspanprof.so"
start_server
say "ordering cars, bikes and scooters for $SECONDS_OF_LOAD s"
OTELC_SPANS_JSON=$OUT/spans.json "$PROGRAMS/loadgen" --url "http://127.0.0.1:$(<"$OUT/port")" \
	--seconds "$SECONDS_OF_LOAD" --seed 1 || die "orders failed"
say "stopping the server"
stop_server

printf '\n'
compare || die "the profile does not agree with the server (files: ${OUT#"$PWD/"})"
[[ -z ${PYROSCOPE_SERVER_ADDRESS:-} ]] ||
	printf '\nPushed to %s as service_name="rideshare" as well.\n' "$PYROSCOPE_SERVER_ADDRESS"
printf '\nFlame graphs to open in a browser: everything, and the slowest span against the others like it:\n'
printf '  %s\n' "${OUT#"$PWD/"}/flamegraph.svg" "${OUT#"$PWD/"}/slowest.svg"
printf '\nThe same profile in a viewer (all vehicles; tags hold the spans):\n'
printf '  go tool pprof -http=: %s/profiles/*.pb.gz\n' "${OUT#"$PWD/"}"
