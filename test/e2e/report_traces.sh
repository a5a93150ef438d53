#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Two processes in one trace, whose spans the SDK sends in its own JSON, as a collector would write them:
# spanprof-report --traces shows the slow trace as a waterfall, with what both profiles know of its spans, and the figures
# are those of the processes' own clocks. Its page is looked at in a real browser, if one is installed.
# Runs alone: it judges how long spans last, and what they wait for.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3
readonly TRACES=$ROOT/test/e2e/report_traces.py REPORT=$TEST_BUILD/spanprof-report

python3 "$TRACES" receive "$WORK/port" "$WORK/spans.jsonl" &
STARTED+=("$!")
poll_until 20 test -s "$WORK/port" || fail "the receiver does not listen"
mkdir "$WORK/folder"
run_under traced SPANPROF_OUTPUT_DIR="$WORK/folder" OTEL_SERVICE_NAME=front TRACED_BACK=back SPANPROF_OFF_CPU=true \
	SPANPROF_SPAN_TIMES=true SPANPROF_SLOW=1ms OTEL_EXPORTER_OTLP_PROTOCOL=http/json \
	OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:$(<"$WORK/port")" "$HOSTS/traced"
expect_rc traced 0
expect_silent traced
(($(wc -l <"$WORK/spans.jsonl") >= 2)) || fail "the spans have not arrived: $(ls -l "$WORK")"

run table "$REPORT" --traces "$WORK/spans.jsonl" "$WORK/folder"
expect_rc table 0
cat "$WORK/table.out"
python3 "$TRACES" judge "$WORK/spans.jsonl" "$WORK/table.out" || fail "not what the processes measured"
# The same compressed, and as one document.
gzip -k "$WORK/spans.jsonl"
python3 "$TRACES" join "$WORK/spans.jsonl" "$WORK/spans.json"
for form in spans.jsonl.gz spans.json; do
	run form "$REPORT" --traces "$WORK/$form" "$WORK/folder"
	expect_same table form out rc
done
# A file of which a part was written yet.
head -c -20 "$WORK/spans.jsonl" >"$WORK/torn.jsonl"
run torn "$REPORT" --traces "$WORK/torn.jsonl" "$WORK/folder"
expect_rc torn 2
grep -q '^passed over: 1 line that is no JSON$' "$WORK/torn.out" || fail "$(<"$WORK/torn.out")"
# Without profiles the waterfall has times alone.
mkdir "$WORK/empty"
run alone "$REPORT" --trace "$(sed -n 's/^trace \([0-9a-f]*\):.*/\1/p' "$WORK/table.out")" --traces "$WORK/spans.jsonl" \
	"$WORK/empty"
expect_rc alone 0
(($(grep -c '^ .*\[.*\]  *\(front\|back\): ' "$WORK/alone.out") == 4)) || fail "$(<"$WORK/alone.out")"

run page "$REPORT" --traces "$WORK/spans.jsonl" --page "$WORK/page.html" "$WORK/folder"
expect_rc page 0
expect_silent page
result=0
python3 "$TRACES" look "$WORK/page.html" "$WORK/spans.jsonl" || result=$?
((result != 77)) || skip "there is no chromium"
((result == 0)) || fail "the page is not as it should be"
