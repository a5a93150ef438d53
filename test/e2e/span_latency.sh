#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# SPANPROF_SPAN_LATENCY: the label latency says how long the root of a sample lasted, compared with the others of its name,
# by the durations that the program's own SDK writes. SPANPROF_SPAN_ID_SCOPE=slow: only samples of slow roots have ids.
# Slow roots in the folder have the values of their attributes, and an error if the SDK has one.
# Runs alone: it judges how long spans last.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3 curl
readonly COMPARE=$ROOT/test/e2e/span_latency.py
# One profile for each run: a root that is open when a profile ends has no latency there.
export SPANPROF_UPLOAD_INTERVAL=10m SPANPROF_SAMPLE_RATE=500 SPANPROF_FLUSH_TIMEOUT=30s

# latencies NAME VARIABLE...: the host with ROOTS roots of each name, its profiles in the folder NAME and its spans in NAME.spans
latencies()
{
	local name=$1

	mkdir "$WORK/$name"
	run_under "$name" SPANPROF_OUTPUT_DIR="$WORK/$name" OTELC_SPANS_JSON="$WORK/$name.spans" "${@:2}" "$HOSTS/latencies" "$ROOTS"
	expect_rc "$name" 0
	expect_silent "$name"
}

# report NAME OPTION...: in NAME.json
report()
{
	build/spanprof-report --json "${@:2}" "$WORK/$1" >"$WORK/$1.json"
}

# classes NAME: what each class has
classes()
{
	local class reports=()

	for class in p50 p90 p99 slow; do
		report "$1" --latency "$class"
		mv "$WORK/$1.json" "$WORK/$1.$class"
		reports+=("$WORK/$1.$class")
	done
	python3 "$COMPARE" classes "$WORK/$1.spans" "${reports[@]}"
}

ROOTS=300
latencies all SPANPROF_SPAN_LATENCY=true SPANPROF_SPAN_LABELS=http.route SPANPROF_STATUS_FILE="$WORK/all.status"
classes all
expect "$WORK/all.status" 'd["loss"]["dropped_ring_full_for_root_ends"] == 0'
python3 "$COMPARE" listed "$WORK/all.spans" "$WORK/all"
# All samples of ended roots are slow or the rest; by the label, or by the list of slow roots.
report all --by latency
expect "$WORK/all.json" '{v["value"] for v in d["values"]} >= {"p50", "slow"}'
report all --diff slow:rest --span-name checkout
expect "$WORK/all.json" 'd["total"]["samples"] > 0 and d["baseline"]["samples"] > 0'

# From a duration on.
ROOTS=150
latencies fixed SPANPROF_SPAN_LATENCY=true SPANPROF_SLOW=20ms
report fixed --latency slow
python3 "$COMPARE" fixed "$WORK/fixed.spans" "$WORK/fixed.json" 20

# Without the label the report goes by the list.
latencies bare
report bare --diff slow:rest
expect "$WORK/bare.json" 'd["total"]["samples"] > 0 and d["baseline"]["samples"] > 0'
if build/spanprof-report --latency p90 "$WORK/bare" 2>"$WORK/why"; then
	fail 'a latency without the label'
fi
grep -q 'SPANPROF_SPAN_LATENCY=true' "$WORK/why" || fail "$(<"$WORK/why")"

# In every view.
build/spanprof-report --latency slow --folded "$WORK/bare" | grep -q main || fail 'no folded stacks'
build/spanprof-report --flamegraph "$WORK/diff.html" --diff slow:rest "$WORK/bare" >"$WORK/said"
grep -q 'slow requests; .*baseline: .* of requests that are "rest"' "$WORK/said" || fail "$(<"$WORK/said")"
for wrong in '--latency fast' '--diff slow:slow' '--diff slow:fast'; do
	rc=0
	# shellcheck disable=SC2086
	build/spanprof-report $wrong "$WORK/bare" >"$WORK/said" 2>&1 || rc=$?
	[[ $rc == 1 ]] || fail "$wrong: $rc, $(<"$WORK/said")"
done

# Only slow roots have ids.
latencies slow SPANPROF_SPAN_ID_SCOPE=slow SPANPROF_SPAN_LATENCY=true SPANPROF_SPAN_LABELS=http.route
report slow
python3 "$COMPARE" ids "$WORK/slow.spans" "$WORK/slow.json" "$WORK/slow"
expect "$WORK/slow.json" 'sum(n["samples"] for n in d["span_names"]) > 0'
report slow --by http.route
expect "$WORK/slow.json" '{v["value"] for v in d["values"]} == {"/slow", "/usual", "/steady"}'

# Without a folder, too: a server gets the label, the ids of the slow roots alone, and fewer bytes.
for scope in root slow none; do
	double_start --ack-delay 0 --store "$WORK/stored.$scope"
	run_under "pushed.$scope" SPANPROF_SERVER_ADDRESS="$DOUBLE_URL" SPANPROF_SPAN_ID_SCOPE="$scope" \
		OTELC_SPANS_JSON="$WORK/pushed.$scope.spans" SPANPROF_SPAN_LATENCY=true "$HOSTS/latencies" 150
	expect_rc "pushed.$scope" 0
	# shellcheck disable=SC2119
	expect_clean_double
	ask "$WORK/stats.json" 'd["accepted"]["bytes"]' >"$WORK/$scope.bytes"
	echo "$scope: $(<"$WORK/$scope.bytes") bytes, $(ask "$WORK/stats.json" 'd["series"]') series"
	grep -qa latency "$WORK/stored.$scope"/*.pb || fail "$scope: no label at the server"
done
(($(<"$WORK/slow.bytes") * 4 < $(<"$WORK/root.bytes") * 3)) || fail "$(<"$WORK/slow.bytes") of $(<"$WORK/root.bytes") bytes"

# Waits have the label as well.
mkdir "$WORK/waits"
run_under waits SPANPROF_OUTPUT_DIR="$WORK/waits" SPANPROF_SPAN_LATENCY=true SPANPROF_OFF_CPU=true "$HOSTS/slow"
expect_rc waits 0
report waits --type off_cpu --by latency
expect "$WORK/waits.json" '"slow" in {v["value"] for v in d["values"]}'
