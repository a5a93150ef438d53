#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# TangoTest from bookworm-backports, with Debian's shared opentelemetry-cpp. Every call of a client is a span that the
# collector receives with its profile id and CPU time, and the samples in spans amount to the same CPU time.
# shellcheck source=test/products/lib.bash
source test/products/lib.bash

readonly CALLS=20000

get tango
in_root
receive
port=$(refused_port)
env TANGO_TELEMETRY_ENABLE=on TANGO_TELEMETRY_TRACES_EXPORTER=http TANGO_TELEMETRY_LOGS_EXPORTER=none \
	TANGO_TELEMETRY_TRACES_ENDPOINT="$COLLECTOR/v1/traces" LD_PRELOAD="$SO" SPANPROF_OUTPUT_DIR="$PROFILES" \
	SPANPROF_SPAN_CPU_TIME=true SPANPROF_SAMPLE_RATE=1000 "${INSIDE[@]}" "$PRODUCT/root/usr/lib/tango/TangoTest" \
	test -nodb -dlist sys/tg_test/1 -ORBendPoint "giop:tcp:127.0.0.1:$port" >"$WORK/server.out" 2>&1 &
server=$!
STARTED+=("$server")
poll_until 60 grep -qs '^Ready' "$WORK/server.out" || fail "TangoTest does not start: $(<"$WORK/server.out")"
run client PYTHONHOME="$PRODUCT/root/usr" PYTHONPATH="$PRODUCT/root/usr/lib/python3/dist-packages" \
	"${INSIDE[@]}" "$PRODUCT/root/usr/bin/python3" test/products/tango_client.py "$port" "$CALLS"
expect_rc client 0
all_came()
{
	(($(wc -l <"$SPANS") >= CALLS))
}
poll_until 30 all_came || fail "$(wc -l <"$SPANS") spans of $CALLS calls came"
kill "$server"
wait "$server" || true

! grep 'spanprof\[' "$WORK/server.out" || fail "messages of ours"
expect_spans
report "$PROFILES" "$WORK/report.json"
python3 "$CHECK" spans "$WORK/report.json" "$SPANS" root
sampled=$(ask "$WORK/report.json" 'd["labelled"]["ns"]')
exact=$(python3 -c 'import json, sys
print(sum(json.loads(line)["attributes"]["spanprof.cpu_time_ns"] for line in sys.stdin))' <"$SPANS")
within "CPU time in spans" "$sampled" "$exact" 20
row TangoTest "$WORK/report.json" "$(awk -v a="$sampled" -v b="$exact" \
	'BEGIN { printf "CPU time in spans: %+.1f %% of their own", (a - b) * 100 / b }')"
