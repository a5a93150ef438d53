#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# MySQL as Debian sid has it, with opentelemetry-cpp linked into a component of it. Statements are labelled in the
# profile and in the spans that arrive at a collector; their CPU time is what MySQL measures itself (mysql.cpu_time), for
# each, and by their digests; and who waits for a row lock is seen there.
# PRODUCTS_STATEMENTS: how many, 10,000 if it is not set.
# shellcheck source=test/products/lib.bash
source test/products/lib.bash

readonly LOAD=(/usr/bin/python3 test/products/mysql_load.py "$WORK/socket")
# The slow statement of the front page.
SLOW=$(sed -n 's/^mysql -e "\(SELECT .*\)"$/\1/p' README.md)
readonly SLOW STATEMENTS=${PRODUCTS_STATEMENTS:-10000}

/usr/bin/python3 -c 'import pymysql' 2>/dev/null || skip "python3-pymysql is not installed"
get mysql
in_root
readonly MYSQLD=("${INSIDE[@]}" "$PRODUCT/root/usr/sbin/mysqld" --no-defaults --secure-file-priv=
	--user="$(id -un)" --datadir="$WORK/data"
	--lc-messages-dir="$PRODUCT/root/usr/share/mysql" --plugin-dir="$PRODUCT/root/usr/lib/mysql/plugin"
	--socket="$WORK/socket" --pid-file="$WORK/pid" --skip-networking --mysqlx=OFF)

# server_start [VARIABLE=VALUE]...: sets SERVER.
server_start()
{
	# What the last server said is no sign of this one.
	rm -f "$WORK/server.err"
	env "$@" "${MYSQLD[@]}" --innodb-flush-log-at-trx-commit=0 \
		--loose-telemetry.otel_exporter_otlp_traces_endpoint="$COLLECTOR/v1/traces" \
		--loose-telemetry.otel_bsp_max_queue_size=200000 --loose-telemetry.otel_bsp_schedule_delay=500 \
		>"$WORK/server.err" 2>&1 &
	SERVER=$!
	STARTED+=("$SERVER")
	poll_until 120 grep -qs 'ready for connections' "$WORK/server.err" ||
		fail "MySQL does not start: $(tail -n 3 "$WORK/server.err")"
}

server_end()
{
	local status=0

	kill "$SERVER"
	wait "$SERVER" || status=$?
	((status == 0)) || fail "MySQL ended with status $status: $(tail -n 3 "$WORK/server.err")"
}

# traced FOLDER STATEMENTS [VARIABLE=VALUE]...: a run of the server with the load; leaves what was compared in FOLDER.check, and
# its status is the check's.
traced()
{
	local folder=$1 statements=$2

	shift 2
	: >"$SPANS"
	server_start LD_PRELOAD="$PRELOAD" SPANPROF_OUTPUT_DIR="$folder" SPANPROF_OFF_CPU=true SPANPROF_SPAN_TIMES=true \
		SPANPROF_SAMPLE_RATE=250 "$@"
	"${LOAD[@]}" prepare
	"${LOAD[@]}" statements "$statements"
	"${LOAD[@]}" few "$SLOW"
	server_end
	! grep 'spanprof\[' "$WORK/server.err" || fail "messages of ours"
	expect_spans
	report "$folder" "$WORK/report.json"
	build/spanprof-report --json --type off_cpu "$folder" >"$WORK/off_cpu.json"
	python3 "$CHECK" spans "$WORK/report.json" "$SPANS" root
	python3 test/products/mysql_check.py "$SPANS" "$WORK/report.json" "$WORK/off_cpu.json" "$folder" "$statements" \
		>"$folder.check"
}

receive
run initialize "${MYSQLD[@]}" --initialize-insecure
expect_rc initialize 0
# Without the label the check has to fail, for this reason alone.
! traced "$WORK/unlabelled" 120 || fail "statements are told apart without SPANPROF_SPAN_LABELS"
grep -q 'FAIL 0.00 % of what their spans have in the profile has it' "$WORK/unlabelled.check" || fail "$(<"$WORK/unlabelled.check")"
traced "$PROFILES" "$STATEMENTS" SPANPROF_SPAN_LABELS=mysql.digest_text || {
	cat "$PROFILES.check"
	fail "not what MySQL says"
}
cat "$PROFILES.check"
waiter=$(sed -n 's/^waiter //p' "$PROFILES.check")
build/spanprof-report --json --type off_cpu --span "$waiter" "$PROFILES" >"$WORK/waiter.json"
expect "$WORK/waiter.json" 'any("lock_wait_suspend_thread" in f["function"] for f in d["functions"])'
# Its picture there (scripts/update-readme.sh --products).
build/spanprof-report --flamegraph "$PRODUCT/flamegraph.html" --span "$(sed -n 's/^slowest //p' "$PROFILES.check")" \
	"$PROFILES" >/dev/null
truth=$(sed -n 's/^truth //p' "$PROFILES.check")$(allocated "$PROFILES")
if [[ ${TEST_ALLOC:-} == 1 ]]; then
	within "bytes that spans have allocated, as sampled and as they say" "$(ask "$WORK/allocated.json" 'd["labelled"]["bytes"]')" \
		"$(python3 -c 'import json, sys; print(sum(json.loads(s)["attributes"].get("spanprof.allocated_bytes", 0) for s in sys.stdin))' \
			<"$SPANS")" 5
fi
row MySQL "$WORK/report.json" "$truth"
