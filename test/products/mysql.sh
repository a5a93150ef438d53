#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# MySQL from Debian sid, with opentelemetry-cpp linked into one of its components. Statements are labelled in the
# profile and in the spans that a collector receives. Their CPU time agrees with MySQL's own measurement
# (mysql.cpu_time), for each statement and by digest. The profile shows which statement waited for a row lock. Then
# MySQL's client traces, too, or sends a traceparent: then a statement of the server has its parent in another
# process. Both programs are profiled, and a statement of both is shown in one waterfall. PRODUCTS_STATEMENTS is the
# number of statements, 10,000 by default.
# shellcheck source=test/products/lib.bash
source test/products/lib.bash

readonly LOAD=(/usr/bin/python3 test/products/mysql_load.py "$WORK/socket")
# The slow statement of the recipe, whose flame graph is on the front page.
SLOW=$(sed -n 's/^mysql -e "\(SELECT .*\)"$/\1/p' scripts/deploy/products.md)
readonly SLOW STATEMENTS=${PRODUCTS_STATEMENTS:-10000}

/usr/bin/python3 -c 'import pymysql' 2>/dev/null || skip "python3-pymysql is not installed"
get mysql
in_root
readonly MYSQLD=("${INSIDE[@]}" "$PRODUCT/root/usr/sbin/mysqld" --no-defaults --secure-file-priv=
	--user="$(id -un)" --datadir="$WORK/data"
	--lc-messages-dir="$PRODUCT/root/usr/share/mysql" --plugin-dir="$PRODUCT/root/usr/lib/mysql/plugin"
	--socket="$WORK/socket" --pid-file="$WORK/pid" --skip-networking --mysqlx=OFF)

readonly CLIENT=("${INSIDE[@]}" "$PRODUCT/root/usr/bin/mysql" --no-defaults --plugin-dir="$PRODUCT/root/usr/lib/mysql/plugin"
	--socket="$WORK/socket" --user=root)
readonly BY_HAND=0af7651916cd43dd8448eb211c80319c

# server_start [VARIABLE=VALUE]...: sets SERVER.
server_start()
{
	# The last server's log must not be taken for this one's.
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

# traced FOLDER STATEMENTS [VARIABLE=VALUE]...: runs the server with the load; FOLDER.check has the comparison, and
# the status is the check's.
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
# Without the label the check must fail, and only for this reason.
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
# The picture on the front page (scripts/update-readme.sh --products).
build/spanprof-report --flamegraph "$PRODUCT/flamegraph.html" --span "$(sed -n 's/^slowest //p' "$PROFILES.check")" \
	"$PROFILES" >/dev/null
truth=$(sed -n 's/^truth //p' "$PROFILES.check")$(allocated "$PROFILES")
if [[ ${TEST_ALLOC:-} == 1 ]]; then
	within "bytes that spans have allocated, as sampled and as they say" "$(ask "$WORK/allocated.json" 'd["labelled"]["bytes"]')" \
		"$(python3 -c 'import json, sys; print(sum(json.loads(s)["attributes"].get("spanprof.allocated_bytes", 0) for s in sys.stdin))' \
			<"$SPANS")" 5
fi
row MySQL "$WORK/report.json" "$truth"
[[ ${TEST_ALLOC:-} != 1 ]] || exit 0

# The client prints a table, which takes CPU time in its own span.
: >"$SPANS"
server_start LD_PRELOAD="$PRELOAD" SPANPROF_OUTPUT_DIR="$WORK/server" SPANPROF_OFF_CPU=true SPANPROF_SPAN_TIMES=true \
	SPANPROF_SAMPLE_RATE=250
"${CLIENT[@]}" --execute "SET GLOBAL telemetry.trace_enabled = ON"
TIMEFORMAT='%U %S'
{
	time LD_PRELOAD="$PRELOAD" SPANPROF_OUTPUT_DIR="$WORK/client" SPANPROF_OFF_CPU=true SPANPROF_SPAN_TIMES=true \
		SPANPROF_SAMPLE_RATE=250 "${CLIENT[@]}" --telemetry_client --otel-trace=ON --otel-exporter-otlp-traces-endpoint="$COLLECTOR/v1/traces" \
		--table shop --execute "SELECT BENCHMARK(6000000, SHA2('x', 256)); SELECT a.*, b.note FROM orders a JOIN orders b ON b.id < 40;
			SELECT BENCHMARK(6000000, SHA2('y', 256))" >/dev/null 2>"$WORK/client.err"
} 2>"$WORK/client.time"
printf '%s\n' "query_attributes traceparent 00-$BY_HAND-b7ad6b7169203331-01" "SELECT BENCHMARK(6000000, SHA2('z', 256));" |
	"${CLIENT[@]}" --commands shop >/dev/null
server_end
! grep 'spanprof\[' "$WORK/server.err" "$WORK/client.err" || fail "messages of ours"
expect_spans
for who in server client; do
	report "$WORK/$who" "$WORK/$who.json"
done
python3 test/products/mysql_client.py "$SPANS" "$WORK/server.json" "$WORK/client.json" "$BY_HAND" \
	"$(awk '{ print $1 + $2 }' "$WORK/client.time")" >"$WORK/client.check" || {
	cat "$WORK/client.check"
	fail "the statements of a client that traces"
}
cat "$WORK/client.check"
# Both programs in one waterfall: the client's statement, and the server's below it, each with the time of its profiles.
python3 test/products/otlp_json.py "$SPANS" >"$WORK/traces.jsonl"
build/spanprof-report --trace "$(sed -n 's/^trace //p' "$WORK/client.check")" --traces "$WORK/traces.jsonl" "$WORK/server" \
	"$WORK/client" >"$WORK/waterfall" || fail "no waterfall: $(<"$WORK/waterfall")"
cat "$WORK/waterfall"
python3 test/products/mysql_waterfall.py "$SPANS" "$WORK/waterfall" || fail "not what MySQL says"
row "Server and client of MySQL" "$WORK/server.json" "$(sed -n 's/^truth //p' "$WORK/client.check")"
