#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# PyArrow as PyPI has it, with opentelemetry-cpp linked into its library: what a job in Python computes there is
# labelled with its spans, in the profile and in the spans that arrive at a collector. Skipped where PyPI cannot be reached.
# shellcheck source=test/products/lib.bash
source test/products/lib.bash

need python3
get pyarrow
receive

# job NAME [VARIABLE=VALUE]...
job()
{
	local name=$1

	shift
	run "$name" ARROW_TRACING_BACKEND=otlp_http OTEL_EXPORTER_OTLP_ENDPOINT="$COLLECTOR" \
		OTEL_SERVICE_NAME=parquet-job "$@" "$PRODUCT/venv/bin/python" test/products/parquet_job.py "$WORK" "${PRODUCTS_ROUNDS:-16}"
	expect_rc "$name" 0
}

job plain
: >"$SPANS"
job under LD_PRELOAD="$SO" SPANPROF_OUTPUT_DIR="$PROFILES" SPANPROF_SPAN_ID_SCOPE=all SPANPROF_SAMPLE_RATE=250
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
row PyArrow "$WORK/report.json" "$(awk -v a="$sampled" -v b="$measured" \
	'BEGIN { printf "CPU time of the job: %+.1f %%", (a - b) * 100 / b }')"
