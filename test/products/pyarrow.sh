#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# PyArrow from PyPI, with opentelemetry-cpp linked into its library. The computations of a Python job are labelled
# with its spans, in the profile and in the spans that a collector receives; the computations of a Flight server have
# the method of the call as a label. Skipped if PyPI cannot be reached.
# shellcheck source=test/products/lib.bash
source test/products/lib.bash

need python3
get pyarrow
receive
TRACED=(ARROW_TRACING_BACKEND=otlp_http OTEL_EXPORTER_OTLP_ENDPOINT="$COLLECTOR")
# Its own allocator does not call malloc().
[[ ${TEST_ALLOC:-} != 1 ]] || TRACED+=(ARROW_DEFAULT_MEMORY_POOL=system)
readonly TRACED

# job NAME [VARIABLE=VALUE]...
job()
{
	local name=$1

	shift
	run "$name" "${TRACED[@]}" OTEL_SERVICE_NAME=parquet-job "$@" "$PRODUCT/venv/bin/python" \
		test/products/parquet_job.py "$WORK" "${PRODUCTS_ROUNDS:-16}"
	expect_rc "$name" 0
}

# served NAME [VARIABLE=VALUE]...: a Flight server and a client that sends requests; NAME.out has the answers,
# NAME.err the server's output.
served()
{
	local name=$1 server status=0

	shift
	env "${TRACED[@]}" OTEL_SERVICE_NAME=flight "$@" "$PRODUCT/venv/bin/python" test/products/flight.py serve \
		>"$WORK/$name.port" 2>"$WORK/$name.server" &
	server=$!
	STARTED+=("$server")
	poll_until 60 test -s "$WORK/$name.port" || fail "the Flight server does not start: $(<"$WORK/$name.server")"
	run "$name" "$PRODUCT/venv/bin/python" test/products/flight.py ask "$(<"$WORK/$name.port")" 15
	expect_rc "$name" 0
	kill "$server"
	wait "$server" || status=$?
	((status == 0)) || fail "the Flight server ended with status $status: $(<"$WORK/$name.server")"
	mv "$WORK/$name.server" "$WORK/$name.err"
}

# deviation SAMPLED MEASURED: for the table
deviation()
{
	awk -v a="$1" -v b="$2" 'BEGIN { printf "%+.1f %%", (a - b) * 100 / b }'
}

job plain
: >"$SPANS"
job under LD_PRELOAD="$PRELOAD" SPANPROF_OUTPUT_DIR="$PROFILES" SPANPROF_SPAN_ID_SCOPE=all SPANPROF_SAMPLE_RATE=250
expect_same plain under out
expect_silent under
expect_spans
report "$PROFILES" "$WORK/report.json"
python3 "$CHECK" spans "$WORK/report.json" "$SPANS" all
for name in parquet::arrow::read_column GroupByNode::InputReceived; do
	expect "$WORK/report.json" "any(n['span_name'] == '$name' and n['ns'] > 0 for n in d['span_names'])"
done
expect "$WORK/report.json" 'd["labelled"]["ns"] > 0.5 * d["total"]["ns"]'
sampled=$(ask "$WORK/report.json" 'd["total"]["ns"]')
measured=$(tail -n 1 "$WORK/under.err")
within "CPU time of the job" "$sampled" "$measured" 5
row PyArrow "$WORK/report.json" "CPU time of the job: $(deviation "$sampled" "$measured")$(allocated "$PROFILES")"

served flight_plain
: >"$SPANS"
served flight LD_PRELOAD="$PRELOAD" SPANPROF_OUTPUT_DIR="$WORK/flight" SPANPROF_SPAN_LABELS=rpc.method SPANPROF_SAMPLE_RATE=250
expect_same flight_plain flight out
expect_silent flight
expect_spans
report "$WORK/flight" "$WORK/flight.json" --by rpc.method
python3 "$CHECK" spans "$WORK/flight.json" "$SPANS" root
truth=()
while read -r method measured; do
	sampled=$(ask "$WORK/flight.json" "sum(v['ns'] for v in d['values'] if v['value'] == '$method')")
	# A call takes a little more than its handler.
	within "CPU time of $method" "$sampled" "$measured" 10
	truth+=("$method: $(deviation "$sampled" "$measured")")
done <"$WORK/flight.err"
((${#truth[@]} == 2)) || fail "not of two methods: ${truth[*]}"
row "Flight server of PyArrow" "$WORK/flight.json" "CPU time of its handlers by \`rpc.method\`: ${truth[0]}, ${truth[1]}$(allocated "$WORK/flight")"
