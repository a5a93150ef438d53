#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs "make demo": the ride-sharing server with the preloaded object, some load, and then a comparison of the profile
# with the server's own measurements. Exit 0 only if they agree. Run it from the root of the repository after
# building.
#
# SPANPROF_DEMO_SECONDS  how long to send orders (default 20; fewer than 10 are too few to compare). On
#                        a slow machine it takes as long as 150 orders do, but not beyond 160 s more.
# SPANPROF_DEMO_OUT      the folder for its results (default build/demo), which is emptied
# PYROSCOPE_SERVER_ADDRESS, OTEL_EXPORTER_OTLP_ENDPOINT and the other variables of spanprof and of
# OpenTelemetry act on the server as usual.
set -euo pipefail

BUILD=${SPANPROF_DEMO_BUILD:-build}
[[ $BUILD == /* ]] || BUILD=$PWD/$BUILD
readonly BUILD
readonly PROGRAMS=$BUILD/test/rideshare
readonly OUT=${SPANPROF_DEMO_OUT:-$BUILD/demo}
readonly SECONDS_OF_LOAD=${SPANPROF_DEMO_SECONDS:-20}
readonly ORDERS_MIN=150
readonly SECONDS_MORE=160
# How long a start or an end may take, also on a slow machine.
readonly PATIENCE_S=60
server_pid=
declare -a failures=()

# The names begin like spanprof's own variables, about which it would warn.
export -n SPANPROF_DEMO_BUILD SPANPROF_DEMO_OUT SPANPROF_DEMO_SECONDS SPANPROF_SKIP_DEPS

say()
{
	printf '==> %s\n' "$*"
}

die()
{
	printf 'demo: FAIL: %s\n' "$*" >&2
	exit 1
}

# failed WHAT WHY WHAT_TO_DO: goes on, because the existing results may still be useful.
failed()
{
	failures+=("$1" "  why:  $2" "  next: $3")
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

last_words()
{
	printf 'the last lines of server.log:\n' >&2
	tail -n 20 "$OUT/server.log" >&2
}

start_server()
{
	SPANPROF_OUTPUT_DIR=$OUT/profiles \
		SPANPROF_UPLOAD_INTERVAL=${SPANPROF_UPLOAD_INTERVAL:-5s} \
		SPANPROF_OFF_CPU=true SPANPROF_SPAN_TIMES=true \
		SPANPROF_PROFILE_URL=${SPANPROF_PROFILE_URL:-grafana-drilldown} \
		SPANPROF_PROFILE_BASE_URL=${SPANPROF_PROFILE_BASE_URL:-http://localhost:3000} \
		OTEL_SERVICE_NAME=rideshare OTELC_SPANS_JSON=$OUT/spans.json \
		LD_PRELOAD=$BUILD/libspanprof.so \
		"$PROGRAMS/server" --port 0 --port-file "$OUT/port" --truth "$OUT/truth.json" \
		>"$OUT/server.log" 2>&1 &
	server_pid=$!
	wait_for "$PATIENCE_S" port_known_or_server_gone ||
		die "the server does not listen within $PATIENCE_S s"
	[[ -s $OUT/port ]] || {
		last_words
		die "the server did not start"
	}
}

order_vehicles()
{
	OTELC_SPANS_JSON=$OUT/spans.json "$PROGRAMS/loadgen" \
		--url "http://127.0.0.1:$(<"$OUT/port")" --seconds "$SECONDS_OF_LOAD" \
		--at-least "$ORDERS_MIN" --at-most $((SECONDS_OF_LOAD + SECONDS_MORE)) --give-up 10 \
		--seed 1 2>&1 | tee "$OUT/loadgen.log" >&2 && return 0
	# stop_server reports the generator's own message.
	server_gone || failed "$(tail -n 1 "$OUT/loadgen.log")" \
		"$(grep -m 1 '^loadgen: http' "$OUT/loadgen.log" || echo unknown)" \
		"if the machine is busy, try again when it is not; server.log has the server's words"
}

stop_server()
{
	local status=0 gone=

	! server_gone || gone="before it was told to, "
	kill -TERM "$server_pid" 2>/dev/null || true
	wait_for "$PATIENCE_S" server_gone || {
		failed "the server did not end within $PATIENCE_S s of SIGTERM" \
			"it hangs, or the machine is very slow" \
			"see where: gdb -p $server_pid, if you start the demo again"
		stop_hard
	}
	wait "$server_pid" || status=$?
	server_pid=
	grep '^spanprof' "$OUT/server.log" || true
	if [[ -n $gone || $status != 0 ]]; then
		last_words
		failed "the server ended ${gone}with status $status" \
			"$( ((status > 128)) && echo "signal $((status - 128))" || echo "see above")" \
			"if it does so without LD_PRELOAD too, it is the server's fault, else please report it"
	fi
}

report()
{
	"$BUILD/spanprof-report" --json "$@" "$OUT/profiles"
}

# The pictures: of everything, and of the slowest span, if there is one, compared with the others of its name, if
# there are any.
draw()
{
	local diff drawn=("${OUT#"$PWD/"}/flamegraph.html")

	"$BUILD/spanprof-report" --flamegraph "$OUT/flamegraph.html" "$OUT/profiles" >/dev/null || {
		failed "no flame graph" "spanprof-report cannot read the profiles or write" "see above"
		return
	}
	for diff in --diff ''; do
		[[ -n $slowest ]] || break
		if "$BUILD/spanprof-report" --flamegraph "$OUT/slowest.html" --span "$slowest" \
			${diff:+"$diff"} "$OUT/profiles" >/dev/null; then
			drawn+=("${OUT#"$PWD/"}/slowest.html")
			break
		fi
	done
	printf '\nFlame graphs to open in a browser: everything, and the slowest span against the others like it:\n'
	printf '  %s\n' "${drawn[@]}"
	# The viewer does not read OTLP.
	compgen -G "$OUT/profiles/*[0-9].pb.gz" >/dev/null || return 0
	printf '\nThe same profile in a viewer (all vehicles; tags hold the spans):\n'
	printf '  go tool pprof -http=: %s/profiles/*[0-9].pb.gz\n' "${OUT#"$PWD/"}"
}

summary()
{
	local what=$1

	shift
	"$PROGRAMS/summary" "$what" --spans "$OUT/spans.json" "$@"
}

# The stacks of all samples, and of those with a span.
fold()
{
	local name

	"$BUILD/spanprof-report" --folded "$OUT/profiles" >"$OUT/all.folded"
	while IFS= read -r name; do
		"$BUILD/spanprof-report" --folded --span-name "$name" "$OUT/profiles"
	done < <(summary names --report "$OUT/report.json") >"$OUT/in_spans.folded"
}

compare()
{
	[[ -s $OUT/truth.json ]] || {
		failed "nothing to compare with" "the server wrote no truth.json" "see above"
		return
	}
	fold
	summary table --report "$OUT/report.json" --truth "$OUT/truth.json" \
		--all "$OUT/all.folded" --in-spans "$OUT/in_spans.folded" ||
		failed "the profile does not agree with the server" "the lines with FAIL tell" \
			"what stands below them"
	[[ -n $slowest ]] || {
		failed "no span of the server has samples" "see the table" "see server.log"
		return
	}
	report --span "$slowest" >"$OUT/slowest.json"
	summary span --report "$OUT/slowest.json" --id "$slowest" ||
		failed "the slowest span lacks something" "the lines with FAIL tell" "see spans.json"
}

# A slow order that hardly computed, and where its time went.
explain_waits()
{
	local slow

	slow=$(summary slow --report "$OUT/report.json") || {
		failed "no slow order knows how long it was off the CPU" "it has not its attributes" \
			"see server.log"
		return
	}
	report --span "$slow" >"$OUT/waits.json" || cp "$OUT/report.json" "$OUT/waits.json"
	summary waits --report "$OUT/waits.json" --id "$slow" ||
		failed "what spans waited for does not agree with the server" "the lines with FAIL tell" \
			"what stands below them"
	report --type off_cpu >"$OUT/off_cpu.json"
	summary holders --report "$OUT/off_cpu.json" ||
		failed "whose lock orders waited for does not agree with the server" \
			"the lines with FAIL tell" "what stands below them"
}

# The page of slow orders and its first sentences, whose figures the server has measured as well. The page comes last.
explain_slowest()
{
	local page=$OUT/slow.html

	printf '\nThe slowest orders, and what made them slow:\n'
	"$BUILD/spanprof-report" --slowest --page "$page" "$OUT/profiles" >"$OUT/slow.txt" || true
	if ! grep -qs '"requests":\[' "$page"; then
		failed "no page of slow orders" "spanprof-report found none, or cannot write" "see above"
		return
	fi
	sed -n 's/^[0-9]*\. /  &/p' "$OUT/slow.txt"
	report --slowest=3 >"$OUT/slow.json" || true
	summary sentences --slowest "$OUT/slow.json" --printed "$OUT/slow.txt" ||
		failed "the sentences about slow orders do not agree with the server" "the lines with FAIL tell" \
			"what stands below them"
	printf '\nA page with the time line of each of them:\n  %s\n' "${page#"$PWD/"}"
}

for file in "$BUILD/libspanprof.so" "$BUILD/spanprof-exporter" "$BUILD/spanprof-report" \
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
order_vehicles
say "stopping the server"
stop_server

printf '\n'
if [[ -z $(find "$OUT/profiles" -name '*.gz' -print -quit) ]]; then
	failed "there are no profiles" "nothing was sampled, or nothing written" "see server.log"
elif report >"$OUT/report.json"; then
	slowest=$(summary slowest --report "$OUT/report.json") || slowest=
	compare
	explain_waits
	draw
	explain_slowest
else
	failed "spanprof-report cannot read the profiles" "see above" "please report it"
fi
[[ -z ${PYROSCOPE_SERVER_ADDRESS:-} ]] ||
	printf '\nPushed to %s as service_name="rideshare" as well.\n' "$PYROSCOPE_SERVER_ADDRESS"
((${#failures[@]} == 0)) || {
	printf '\n%s\n' "demo: FAIL (files: ${OUT#"$PWD/"})" >&2
	printf '%s\n' "${failures[@]}" >&2
	exit 1
}
