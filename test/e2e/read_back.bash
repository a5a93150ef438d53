# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Queries the server at DOUBLE_URL for all that a host pushed: each span's profile by SelectMergeSpanProfile, the
# series with their labels, and nothing that was not sent. Sourced after lib.bash. TENANT, if not empty, is sent as
# X-Scope-OrgID.

need python3 curl
readonly TYPE=process_cpu:cpu:nanoseconds:cpu:nanoseconds
readonly SERVICE=spanprof-e2e-$$-$RANDOM
readonly REGION=e2e-$RANDOM

# query CALL BODY FILE: JSON over Connect, which every version answers.
query()
{
	local -a header=(-H 'Content-Type: application/json')

	[[ -z $TENANT ]] || header+=(-H "X-Scope-OrgID: $TENANT")
	curl -sS --fail --max-time 20 -o "$3" "${header[@]}" --data "$2" \
		"$DOUBLE_URL/querier.v1.QuerierService/$1"
}

range()
{
	printf '"start":%d,"end":%d' $((BEGAN - 120000)) $(($(now_ms) + 120000))
}

# span_profile ID FILE
span_profile()
{
	query SelectMergeSpanProfile "{\"profileTypeID\":\"$TYPE\",\"spanSelector\":[\"$1\"],
		\"labelSelector\":\"{service_name=\\\"$SERVICE\\\"}\",$(range)}" "$2"
}

# stacktraces SELECTOR FILE
stacktraces()
{
	query SelectMergeStacktraces "{\"profileTypeID\":\"$TYPE\",
		\"labelSelector\":\"{service_name=\\\"$SERVICE\\\"$1}\",$(range)}" "$2"
}

total_of()
{
	ask "$1" 'int(d.get("flamegraph", {}).get("total", 0))'
}

# Everything that was sent has arrived. A server may need time before a query sees it, and the exporter may send the
# last profiles after the host has ended.
all_is_there()
{
	report "$FOLDER" "$WORK/sent.json"
	SENT=$(ask "$WORK/sent.json" 'd["total"]["ns"]')
	stacktraces '' "$WORK/all.json" 2>/dev/null && [[ $(total_of "$WORK/all.json") == "$SENT" ]]
}

# read_back FOLDER [SECONDS]: all assertions. FOLDER is a new one in $WORK for the profiles; the server has all of
# them after that many seconds.
read_back()
{
	local sent=$WORK/$1 wait_s=${2:-30} id name wanted names

	BEGAN=$(now_ms)
	mkdir "$sent"
	run_under host SPANPROF_SERVER_ADDRESS="$DOUBLE_URL" SPANPROF_OUTPUT_DIR="$sent" \
		SPANPROF_SAMPLE_RATE=250 SPANPROF_UPLOAD_INTERVAL=1s SPANPROF_FLUSH_TIMEOUT=30s SPANPROF_TENANT_ID="$TENANT" \
		SPANPROF_APPLICATION_NAME="$SERVICE" SPANPROF_LABELS="region=$REGION" \
		OTELC_SPANS_JSON="$WORK/spans" "$HOSTS/spans" 600
	expect_rc host 0
	# The folder has the same profiles as the server.
	FOLDER=$sent
	poll_until "$wait_s" all_is_there || fail "sent $SENT ns, the server has $(total_of "$WORK/all.json")"

	# Each span by its id: it has all of its time and no other.
	while read -r id wanted name; do
		span_profile "$id" "$WORK/span.json"
		[[ $(total_of "$WORK/span.json") == "$wanted" ]] ||
			fail "span $id ($name): sent $wanted ns, the server has $(total_of "$WORK/span.json")"
		expect "$WORK/span.json" 'any(n.startswith("work_") for n in d["flamegraph"]["names"])'
		# By name, as the links to the baseline ask.
		stacktraces ",span_name=\\\"$name\\\"" "$WORK/name.json"
		[[ $(total_of "$WORK/name.json") == "$(ask "$WORK/sent.json" \
			"sum(n['ns'] for n in d['span_names'] if n['span_name'] == '$name')")" ]] ||
			fail "span name $name: another time than was sent"
	done < <(ask "$WORK/sent.json" \
		'"\n".join("%s %d %s" % (s["span_id"], s["ns"], s["span_name"]) for s in d["spans"][:2])')
	span_profile 00000000000000aa "$WORK/none.json"
	[[ $(total_of "$WORK/none.json") == 0 ]] || fail "a span that never was has a profile"

	# The series, its labels, its profile types.
	names='["service_name","region","span_name"]'
	query Series "{\"matchers\":[\"{service_name=\\\"$SERVICE\\\"}\"],\"labelNames\":$names,$(range)}" \
		"$WORK/series.json"
	expect "$WORK/series.json" \
		"all({'name': 'region', 'value': '$REGION'} in s['labels'] for s in d['labelsSet'])"
	expect "$WORK/series.json" \
		"{'checkout', 'search'} <= {l['value'] for s in d['labelsSet'] for l in s['labels'] if l['name'] == 'span_name'}"
	query LabelValues "{\"name\":\"service_name\",$(range)}" "$WORK/services.json"
	expect "$WORK/services.json" "'$SERVICE' in d['names']"
	query ProfileTypes "{$(range)}" "$WORK/types.json"
	expect "$WORK/types.json" "'$TYPE' in [t['ID'] for t in d['profileTypes']]"
}
