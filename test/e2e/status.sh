#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2119
# The status file of each process tells the truth about it: compared with what the double received.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3 curl
export SPANPROF_UPLOAD_INTERVAL=300ms SPANPROF_SAMPLE_RATE=250

mkdir "$WORK/status"
double_start --ack-delay 0
run_under host SPANPROF_SERVER_ADDRESS="${DOUBLE_URL/\/\////user:s3cret@}" \
	SPANPROF_STATUS_FILE="$WORK/status/host.json" OTEL_SERVICE_NAME=shop "$HOSTS/spans" 600
expect_rc host 0
expect_silent host
expect_clean_double
double_get /double/spans "$WORK/spans.json"
status=$WORK/status/host.json
expect "$status" 'd["service"] == "shop" and d["state"] == "ending"'
expect "$status" '[s["name"] for s in d["sdks"]] == ["opentelemetry-cpp, ABI v1"]'
expect "$status" 'd["sdks"][0]["spans_started"] == d["spans"]["started"] > 0'
expect "$status" 'd["spans"]["ended"] == d["spans"]["started"] and d["spans"]["open"] == 0'
expect "$status" 'd["samples"]["put"] == d["samples"]["drained"] > 0'
expect "$status" "d['samples']['with_span'] == $(ask "$WORK/spans.json" 'd["with_span"]["samples"]')"
expect "$status" "d['samples']['without_span'] == $(ask "$WORK/spans.json" 'd["without_span"]["samples"]')"
expect "$status" 'set(d["loss"].values()) == {0}'
expect "$status" "d['push']['address'] == '$DOUBLE_URL' and d['push']['last_status'] == 200"
expect "$status" "d['push']['attempts'] == $(ask "$WORK/stats.json" 'd["requests"]["200"]')"
expect "$status" 'd["push"]["last_error"] == "" and abs(d["push"]["server_time_skew_ms"]) < 60000'
[[ -z $(find "$WORK/status" -name '*.tmp') ]] || fail "a part of a file is left"
if grep -q s3cret "$status"; then
	fail "a secret in the status file"
fi
build/spanprof-report --status "$status" >"$WORK/words"
grep -q '^lost      nothing$' "$WORK/words" || fail "$(<"$WORK/words")"

# What is not a file stays what it is, and nobody waits for a reader of it.
mkfifo "$WORK/fifo"
run_under fifo SPANPROF_OUTPUT_DIR="$WORK/fifo.out" SPANPROF_STATUS_FILE="$WORK/fifo" "$HOSTS/spans" 300
expect_rc fifo 0
[[ -p $WORK/fifo ]] || fail "the FIFO was replaced"
[[ $(grep -c "cannot write the status file $WORK/fifo: it is not a regular file" "$WORK/fifo.err") == 1 ]] ||
	fail "not told once: $(result fifo.err)"

# Each forked child has its own.
run_under prefork SPANPROF_OUTPUT_DIR="$WORK/out" SPANPROF_STATUS_FILE="$WORK/status/fork.%p" \
	"$HOSTS/prefork" before
expect_rc prefork 12
while read -r _ pid; do
	expect "$WORK/status/fork.$pid" "d['pid'] == $pid and d['samples']['with_span'] > 0"
	expect "$WORK/status/fork.$pid" 'd["push"] is None'
done <"$WORK/prefork.out"

# A server that is not there: its exporter goes on trying without the host, and then counts.
all_lost()
{
	[[ $(ask "$status" 'd["loss"]["batches_unsent_at_exit"] > 0') == True ]]
}
run_under away SPANPROF_SERVER_ADDRESS="http://127.0.0.1:$(refused_port)" \
	SPANPROF_STATUS_FILE="$status" "$HOSTS/spend" 200
expect "$status" 'd["push"]["last_status"] == 0 and d["push"]["last_error"] != ""'
poll_until 20 all_lost || fail "nothing is counted as lost: $(<"$status")"
expect "$status" 'd["push"]["last_success_unix_ms"] is None'
expect "$status" 'd["loss"]["samples_in_lost_batches"] == d["samples"]["with_span"] + d["samples"]["without_span"]'
# A folder that cannot be written to is one line, and the profiles go on.
double_start --ack-delay 0
run_under denied SPANPROF_SERVER_ADDRESS="$DOUBLE_URL" SPANPROF_STATUS_FILE=/proc/nowhere/status \
	"$HOSTS/spend" 700
expect_rc denied 7
[[ $(grep -c 'cannot write the status file /proc/nowhere/status: ' "$WORK/denied.err") == 1 ]] ||
	fail "not one line: $(<"$WORK/denied.err")"
expect_clean_double
