#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2119
# A program shows no profiles: spanprof-doctor alone names the one cause, in each of the ways in
# which that happens, and finds nothing where all is well.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash
# shellcheck source=test/common/exporter.bash
source test/common/exporter.bash

need python3 sed grep tr busybox
readonly DOCTOR=$ROOT/scripts/spanprof-doctor
readonly SERVICE=OTEL_SERVICE_NAME=shop
readonly SIGPROF=27

# diagnosis NAME STATUS [TEXT]: what the doctor found; TEXT is in the only line that says WRONG.
diagnosis()
{
	local name=$1 status=$2 wrong

	wrong=$(grep -c '^  WRONG' "$WORK/$name.out" || true)
	[[ $(result "$name.rc") == "$status" && $wrong == "$status" ]] || {
		cat "$WORK/$name.out" "$WORK/$name.err" >&2
		fail "$name: status $(result "$name.rc"), $wrong times WRONG"
	}
	[[ -z ${3-} ]] || grep -q "^  WRONG .*$3" "$WORK/$name.out" || {
		cat "$WORK/$name.out" >&2
		fail "$name: not \"$3\""
	}
	if ((status == 1)); then
		grep -q '^         change: ' "$WORK/$name.out" || fail "$name: no advice"
	fi
}

# host_start PART [VARIABLE=VALUE]... COMMAND...: runs it until it has mapped an object, or has an exporter.
host_start()
{
	local part=$1

	shift
	env "$@" >"$WORK/host.out" 2>"$WORK/host.err" </dev/null &
	HOST_PID=$!
	STARTED+=("$HOST_PID")
	disown "$HOST_PID"
	poll_until 60 has_mapped "$HOST_PID" "$part" || fail "$part is not mapped: $(<"$WORK/host.err")"
}

# examine NAME STATUS TEXT PART [VARIABLE=VALUE]... COMMAND...: the doctor visits a running process.
examine()
{
	local name=$1 status=$2 text=$3

	shift 3
	host_start "$@"
	run "$name" "$DOCTOR" "$HOST_PID"
	kill "$HOST_PID" 2>/dev/null || true
	diagnosis "$name" "$status" "$text"
}

# The program whose profiles are missed, started as it should be.
readonly REQUESTS=("LD_PRELOAD=$SO" SPANPROF_UPLOAD_INTERVAL=1s "$HOSTS/requests" 120000)

double_start
readonly SERVER=PYROSCOPE_SERVER_ADDRESS=$DOUBLE_URL
examine well 0 '' "$ACTIVE" "$SERVICE" "$SERVER" "${REQUESTS[@]}"
grep -q '^  ok .*accepts pushes' "$WORK/well.out" || fail "the server was not tried"
# Nothing was stored by that, and nothing refused.
double_get /double/stats "$WORK/stats.json"
expect "$WORK/stats.json" 'd["rejected"] == {} and d["requests"]["200"] >= 1'
run well.command "$SERVICE" "$SERVER" "$DOCTOR" -- "$HOSTS/spend" 200
diagnosis well.command 0
grep -q '^  ok .*samples, [1-9][0-9]* of them in 1 spans' "$WORK/well.command.out" || fail "no samples"
grep -qx 'done' "$WORK/well.command.out" || fail "the command's output is lost"

# Its exporter is gone, by whatever hand, and no hook has started another one so far.
host_start "$ACTIVE" "$SERVICE" "$SERVER" "${REQUESTS[@]}"
exporter=$(exporter_of "$HOST_PID")
kill -STOP "$HOST_PID"
kill -9 "$exporter"
is_gone()
{
	! exporter_of "$HOST_PID" >/dev/null
}
poll_until 20 is_gone || fail "another exporter has come"
run ended "$DOCTOR" "$HOST_PID"
kill -KILL "$HOST_PID"
diagnosis ended 1 'its exporter has ended'

# 1. The profiles are there, under another name than the spans.
examine service 1 'have the service "shopp", the spans "shop"' "$ACTIVE" "$SERVICE" "$SERVER" \
	SPANPROF_APPLICATION_NAME=shopp "${REQUESTS[@]}"
examine resource 1 'the spans "shop"' "$ACTIVE" PYROSCOPE_APPLICATION_NAME=other "$SERVER" \
	OTEL_RESOURCE_ATTRIBUTES=service.version=1,service.name=shop "${REQUESTS[@]}"
examine unnamed 1 'no service name' "$ACTIVE" "$SERVER" "${REQUESTS[@]}"
# Unless the program names it in code.
host_start "$ACTIVE" "$SERVER" "LD_PRELOAD=$SO" STORY_SERVICE=shop SPANPROF_STATUS_FILE="$WORK/named.status" \
	SPANPROF_UPLOAD_INTERVAL=1s "$TEST_LIBS/otelcpp/debian/stories" nested 60000
poll_until 20 grep -q libopentelemetry_trace "$WORK/named.status" || fail "the SDK is not in the status file"
run named SPANPROF_STATUS_FILE="$WORK/named.status" "$DOCTOR" "$HOST_PID"
kill "$HOST_PID"
diagnosis named 0
grep -q '^  ok     service: shop (the program gives it' "$WORK/named.out" || fail "$(<"$WORK/named.out")"
# Without a status file nobody can tell that there is none.
host_start "$ACTIVE" "$SERVER" "LD_PRELOAD=$SO" STORY_SERVICE=shop SPANPROF_OUTPUT_DIR="$WORK/named.profiles" \
	"$TEST_LIBS/otelcpp/debian/stories" nested 60000
run untold "$DOCTOR" "$HOST_PID"
kill "$HOST_PID"
diagnosis untold 0
grep -q '^  note   no variable names the service' "$WORK/untold.out" || fail "$(<"$WORK/untold.out")"
# A run shows it: the name that it has, and one that differs.
run named.command "$SERVER" STORY_SERVICE=shop "$DOCTOR" -- "$TEST_LIBS/otelcpp/debian/stories" nested 200
diagnosis named.command 0
run other.command "$SERVER" SPANPROF_APPLICATION_NAME=shopp STORY_SERVICE=shop "$DOCTOR" -- \
	"$TEST_LIBS/otelcpp/debian/stories" nested 200
diagnosis other.command 1 'have the service "shopp", the spans of the program "shop"'
! grep '^  ok     service' "$WORK/other.command.out" || fail "and the service is well"
grep -q '^  note   opentelemetry-cpp, ABI v1, release [0-9.]* in .*libopentelemetry_trace.so.*: its virtual methods, by name' \
	"$WORK/named.out" || fail "$(<"$WORK/named.out")"
# 2. No loader runs.
NOBODY_THERE=PYROSCOPE_SERVER_ADDRESS=http://127.0.0.1:$(refused_port)
run static "$SERVICE" "$NOBODY_THERE" "$DOCTOR" -- "$HOSTS/static" 10 x
diagnosis static 1 'statically linked'
if [[ $(build/spanprof-run --check busybox || true) == *"statically linked"* ]]; then
	examine static.pid 1 'statically linked' busybox "LD_PRELOAD=$SO" "$SERVICE" "$NOBODY_THERE" \
		busybox sleep 60
fi
# 3. The SDK is a part of the program, and there is nothing that it could be found by.
g++ -o "$WORK/inside" "$TEST_LIBS"/otelcpp/static_nortti/{stories,mini_sdk}.o -lpthread
run hidden "$SERVICE" "$SERVER" "$DOCTOR" -- "$WORK/inside" nested 50
diagnosis hidden 1 'its SDK cannot be hooked: opentelemetry-cpp.*hidden symbols'
# The cause comes before what the server has to do with it.
run first "$SERVICE" "$NOBODY_THERE" "$DOCTOR" -- "$HOSTS/plain" 10 x
grep -m 1 '^  WRONG' "$WORK/first.out" | grep -q 'no supported OpenTelemetry SDK' || fail "$(<"$WORK/first.out")"
run nameless "$SERVICE" "$SERVER" "$DOCTOR" -- "$TEST_LIBS/otelcpp/static_nortti/stories" nested 50
diagnosis nameless 1 'no supported OpenTelemetry SDK'
# 4. Nobody samples the traces.
examine unsampled 1 'OTEL_TRACES_SAMPLER=always_off samples none' fixture "$SERVICE" "$SERVER" \
	FIXTURE_UNSAMPLED=1 OTEL_TRACES_SAMPLER=always_off "${REQUESTS[@]}"
run unsampled.code "$SERVICE" "$SERVER" FIXTURE_UNSAMPLED=1 "$DOCTOR" -- "$HOSTS/spend" 50
diagnosis unsampled.code 1 'none of its traces is sampled'
# 5. Nobody is there.
examine unreachable 1 'cannot be reached' "$ACTIVE" "$SERVICE" \
	"PYROSCOPE_SERVER_ADDRESS=http://127.0.0.1:$(refused_port)" "${REQUESTS[@]}"
# 6. Wrong credentials, which are not shown.
double_start --basic user:right
examine refused 1 'refuses the push (401)' "$ACTIVE" "$SERVICE" \
	"PYROSCOPE_SERVER_ADDRESS=${DOUBLE_URL/\/\////user:from-the-url@}" "${REQUESTS[@]}"
if grep -q from-the-url "$WORK/refused.out" "$WORK/refused.err"; then
	fail "a secret was shown"
fi
examine password 1 'refuses the push (401)' "$ACTIVE" "$SERVICE" "PYROSCOPE_SERVER_ADDRESS=$DOUBLE_URL" \
	SPANPROF_BASIC_AUTH_USER=user SPANPROF_BASIC_AUTH_PASSWORD=not-the-password "${REQUESTS[@]}"
if grep -q not-the-password "$WORK/password.out" "$WORK/password.err"; then
	fail "a secret was shown"
fi
# 7. Too much for the server.
double_start --fault status=429,retry_after=7,count=0
examine limited 1 'limits the rate of pushes (429)' "$ACTIVE" "$SERVICE" "PYROSCOPE_SERVER_ADDRESS=$DOUBLE_URL" \
	"${REQUESTS[@]}"
# 8. Clocks.
for offset in 7200 -7200; do
	double_start --now-offset "$offset"
	examine clock 1 'clocks of this machine and of' "$ACTIVE" "$SERVICE" \
		"PYROSCOPE_SERVER_ADDRESS=$DOUBLE_URL" "${REQUESTS[@]}"
done
# 9. The program takes the signal for itself.
run taken "$SERVICE" "$SERVER" SPANPROF_SIGNAL=SIGPROF "$DOCTOR" -- "$HOSTS/taker" "$SIGPROF" 30000
diagnosis taken 1 "took signal $SIGPROF"
host_start "$ACTIVE" "$SERVICE" "$SERVER" SPANPROF_SIGNAL=SIGPROF "LD_PRELOAD=$SO" \
	"$HOSTS/taker" "$SIGPROF" 120000 stay
if [[ -r /proc/$HOST_PID/timers ]]; then
	poll_until 60 grep -q 'took signal' "$WORK/host.err" || fail "the signal was not taken"
	run taken.pid "$DOCTOR" "$HOST_PID"
	diagnosis taken.pid 1 "took signal $SIGPROF"
fi
kill "$HOST_PID"
# 10. Somebody else's list, or none.
examine overwritten 1 'LD_PRELOAD does not name libspanprof.so' fixture "$SERVICE" "$SERVER" \
	LD_PRELOAD=libm.so.6 "$HOSTS/requests" 120000
examine unset 1 'LD_PRELOAD is not set' fixture "$SERVICE" "$SERVER" "$HOSTS/requests" 120000
printf '#!/bin/sh\nLD_PRELOAD=libm.so.6 exec "%s" 10\n' "$HOSTS/spend" >"$WORK/start.sh"
chmod +x "$WORK/start.sh"
run script "$SERVICE" "$SERVER" "$DOCTOR" -- "$WORK/start.sh"
grep -q '^  WRONG .*start.sh sets LD_PRELOAD itself' "$WORK/script.out" || fail "$(<"$WORK/script.out")"

# More that happens.
examine disabled 1 'switched off by a variable' fixture "$SERVICE" "$SERVER" OTEL_SDK_DISABLED=true \
	SPANPROF_OUTPUT_DIR="$WORK" "${REQUESTS[@]}"
! grep 'are written' "$WORK/disabled.out" || fail "profiles are written although profiling is switched off"
examine typo 1 'SPANPROF_SERVER_ADRESS' "$ACTIVE" "$SERVICE" "$SERVER" SPANPROF_SERVER_ADRESS=x \
	"${REQUESTS[@]}"
# As installed, and without the exporter.
mkdir -p "$WORK"/opt/{bin,lib/spanprof}
cp build/spanprof-{run,probe,report} "$DOCTOR" "$WORK/opt/bin"
cp "$SO" "$WORK/opt/lib/spanprof"
run exporter "$SERVICE" "$SERVER" "$WORK/opt/bin/spanprof-doctor" -- "$HOSTS/spend" 50
diagnosis exporter 1 'cannot start the exporter'
run plain "$SERVICE" "$SERVER" "$DOCTOR" -- "$HOSTS/plain" 10 x
diagnosis plain 1 'no supported OpenTelemetry SDK'
for bad in '' nonsense 1x --; do
	run bad "$DOCTOR" "$bad"
	expect_rc bad 125
done
run gone "$DOCTOR" "$HOST_PID$HOST_PID"
expect_rc gone 125

# A status file, whatever its keys are.
cat >"$WORK/status" <<'END'
{"pid": 7, "state": "active", "sdks": [{"name": "x", "spans_started": 3}],
 "samples": {"with_span": 5}, "push": {"last_error": "a\nb"}, "more": [[1, true, null, 1.5]]}
END
build/spanprof-probe --status "$WORK/status" | diff - <(printf '%s\n' 'status.pid 7' \
	'status.state active' 'status.sdks.0.name x' 'status.sdks.0.spans_started 3' \
	'status.samples.with_span 5' 'status.push.last_error a b' 'status.more.0.0 1' \
	'status.more.0.1 yes' 'status.more.0.3 2') >&2 || fail "the status file reads differently"
run no_json build/spanprof-probe --status "$DOCTOR"
expect_rc no_json 125

# The real one of a running process, which the doctor finds by the variable.
double_start
host_start "$ACTIVE" "$SERVICE" "PYROSCOPE_SERVER_ADDRESS=$DOUBLE_URL" \
	SPANPROF_STATUS_FILE="$WORK/status.%p" "${REQUESTS[@]}"
has_samples()
{
	[[ $(build/spanprof-probe --status "$WORK/status.$HOST_PID" 2>/dev/null) =~ samples.with_span\ [1-9] ]]
}
poll_until 60 has_samples || fail "no status file with samples"
run status "$DOCTOR" "$HOST_PID"
kill "$HOST_PID"
diagnosis status 0
grep -q '^  note  *[0-9]* s ago the status file said: state: active, [1-9][0-9]* threads sampled' "$WORK/status.out" || fail "$(<"$WORK/status.out")"
grep -q '^  note .*samples: [1-9][0-9]* taken, [1-9][0-9]* in spans, [0-9]* outside; [1-9][0-9]* spans' \
	"$WORK/status.out" || fail "$(<"$WORK/status.out")"
if grep -q ' lost: ' "$WORK/status.out"; then
	fail "a loss where nothing was lost: $(<"$WORK/status.out")"
fi

# What of the program's SDK is not understood.
host_start "$ACTIVE" "$SERVICE" "PYROSCOPE_SERVER_ADDRESS=$DOUBLE_URL" "LD_PRELOAD=$SO" \
	SPANPROF_STATUS_FILE="$WORK/status.%p" SPANPROF_UPLOAD_INTERVAL=1s \
	"$TEST_LIBS/otelcpp/foreign_token/stories" renamed 120000
poll_until 60 has_samples || fail "no status file with samples"
run unknown "$DOCTOR" "$HOST_PID"
kill "$HOST_PID"
diagnosis unknown 1 'opentelemetry-cpp, ABI v1: context::Token not understood, .*from start to end'
