#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A host's pushes arrive at a strict server: it refuses and drops none, each span can be queried by its id, and
# tenant, credentials and labels are right.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3 curl
readonly TYPE=process_cpu:cpu:nanoseconds:cpu:nanoseconds
export SPANPROF_SAMPLE_RATE=250 SPANPROF_UPLOAD_INTERVAL=500ms

push()
{
	local name=$1

	shift
	run_under "$name" SPANPROF_SERVER_ADDRESS="$DOUBLE_URL" OTELC_SPANS_JSON="$WORK/$name.spans" \
		"$@" "$HOSTS/spans" 1200
	expect_rc "$name" 0
	expect_silent "$name"
}

# Queries for a span that the double has, and for one that it cannot have.
query_spans()
{
	local span now

	now=$(now_ms)
	span=$(ask "$WORK/spans.json" 'max(d["spans"], key=lambda s: d["spans"][s]["ns"])')
	body()
	{
		printf '{"profileTypeID":"%s","labelSelector":"{}","spanSelector":["%s"],"start":%d,"end":%d}' \
			"$TYPE" "$1" $((now - 600000)) $((now + 60000))
	}
	double_query SelectMergeSpanProfile "$(body "$span")" "$WORK/flame.json" "$@"
	expect "$WORK/flame.json" 'int(d["flamegraph"]["total"]) > 0'
	expect "$WORK/flame.json" 'set(d["flamegraph"]["names"]) & {"work_checkout", "work_charge", "work_search"} != set()'
	double_query SelectMergeSpanProfile "$(body 00000000000000aa)" "$WORK/none.json" "$@"
	expect "$WORK/none.json" 'int(d["flamegraph"].get("total", 0)) == 0'
}

# expect_spans NAME: the double has spans of both threads, and the SDK exported all of them.
expect_spans()
{
	expect "$WORK/spans.json" '{"checkout", "search"} <= set(d["span_names"])'
	expect "$WORK/spans.json" 'all("conflicts" not in s for s in d["spans"].values())'
	python3 - "$WORK/spans.json" "$WORK/$1.spans" <<-'END' || fail "a span that the SDK did not export"
		import json, sys
		got = json.load(open(sys.argv[1]))["spans"]
		exported = {s["span_id"]: s for s in map(json.loads, open(sys.argv[2]))}
		assert got
		for span_id, s in got.items():
		    assert exported[span_id]["name"] == s["span_name"], span_id
		    assert exported[span_id]["trace_id"] == s["trace_id"], span_id
	END
}

double_start --ack-delay 0
push plain
expect_clean_double
expect "$WORK/stats.json" 'd["accepted"]["profiles"] >= 2'
double_get /double/spans "$WORK/spans.json"
expect_spans plain
expect "$WORK/spans.json" 'list(d["pids"]) != []'
query_spans

double_start --ack-delay 0 --multitenancy --token s3cret-token
push bearer SPANPROF_TENANT_ID=team-a SPANPROF_AUTH_TOKEN=s3cret-token \
	SPANPROF_LABELS=region=eu,zone=1 SPANPROF_APPLICATION_NAME=shop \
	SPANPROF_HTTP_HEADERS='{"X-Extra":"more"}'
as_tenant=(-H 'X-Scope-OrgID: team-a' -H 'Authorization: Bearer s3cret-token')
expect_clean_double "${as_tenant[@]}"
double_get /double/spans "$WORK/spans.json" "${as_tenant[@]}"
expect_spans bearer
expect "$WORK/spans.json" 'list(d["services"]) == ["shop"]'
query_spans "${as_tenant[@]}"
double_query Series '{"matchers":["{region=\"eu\",zone=\"1\",service_name=\"shop\"}"],"labelNames":["region","zone"]}' \
	"$WORK/series.json" "${as_tenant[@]}"
expect "$WORK/series.json" 'd["labelsSet"] == [{"labels": [{"name": "region", "value": "eu"}, {"name": "zone", "value": "1"}]}]'
# Another tenant sees none of it.
double_query Series '{"matchers":["{}"]}' "$WORK/series.json" -H 'X-Scope-OrgID: team-b' \
	-H 'Authorization: Bearer s3cret-token'
expect "$WORK/series.json" 'd.get("labelsSet", []) == []'

double_start --ack-delay 0 --basic 'user:p@ss:word'
push basic SPANPROF_BASIC_AUTH_USER=user SPANPROF_BASIC_AUTH_PASSWORD=p@ss:word
expect_clean_double -u 'user:p@ss:word'
double_get /double/spans "$WORK/spans.json" -u 'user:p@ss:word'
expect_spans basic

# Wrong credentials are reported once, without the secret.
run_under wrong SPANPROF_SERVER_ADDRESS="$DOUBLE_URL" SPANPROF_BASIC_AUTH_USER=user \
	SPANPROF_BASIC_AUTH_PASSWORD=not-the-password "$HOSTS/spend" 200
expect_rc wrong 7
grep -q 'spanprof\[.*401' "$WORK/wrong.err" || fail "a refusal is not reported"
if grep -q 'not-the-password' "$WORK/wrong.err"; then
	fail "a secret on stderr"
fi

# Three types of profiles follow each other over one connection, at the end in parallel. None is lost or sent twice.
double_start --ack-delay 0
run_under types SPANPROF_SERVER_ADDRESS="$DOUBLE_URL" SPANPROF_UPLOAD_INTERVAL=1s SPANPROF_WALL=true \
	SPANPROF_OFF_CPU=true SPANPROF_STATUS_FILE="$WORK/types.json" "$HOSTS/waits" 8 300
expect_rc types 0
double_get /double/stats "$WORK/stats.json"
expect "$WORK/stats.json" 'd["accepted"]["profiles"] >= 3 and d["rejected"] == {}'
expect "$WORK/stats.json" '0 < d["connections"] < d["accepted"]["profiles"]'
expect "$WORK/types.json" 'set(d["loss"].values()) == {0}'
expect "$WORK/types.json" 'd["off_cpu"]["waits"] == d["off_cpu"]["sent"] > 0'
