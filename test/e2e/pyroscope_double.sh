#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Tests a running Pyroscope double with curl: pushes, what it stores of them, queries, credentials and every fault as
# a client meets it.
set -euo pipefail

readonly DOUBLE=build/test/pyroscope-double PROFILE=(python3 test/pyroscope/profiles.py)
readonly SPAN=9a517183f26a089d TRACE=7c9e66797425440de944be07fc1f90ae
readonly TYPE=process_cpu:cpu:nanoseconds:cpu:nanoseconds
readonly PUSH=push.v1.PusherService/Push
# shellcheck source=test/common/servers.bash
source test/common/servers.bash

fail()
{
	echo "FAIL: $*" >&2
	cat "$WORK"/*.log >&2 || true
	exit 1
}

# expect WHAT WANTED GOT
expect()
{
	[[ $3 == "$2" ]] || fail "$1: wanted '$2', got '$3'"
}

# expect_part WHAT PART TEXT
expect_part()
{
	[[ $3 == *"$2"* ]] || fail "$1: no '$2' in '$3'"
}

# start NAME [OPTION...]: sets url and pid. The fifo gets a line when the double has written its port.
start()
{
	local name=$1 port

	shift
	mkfifo "$WORK/$name.port"
	"$DOUBLE" --log "$WORK/$name.log" --ack-delay 0 "$@" >"$WORK/$name.port" &
	pid=$!
	STARTED+=("$pid")
	read -r port <"$WORK/$name.port" || fail "$name did not start"
	url=http://127.0.0.1:$port
}

# push [CURL OPTION...] <request: prints the status; $WORK/body gets the body
push()
{
	curl -s --max-time 20 -o "$WORK/body" -w '%{http_code}' -H 'Content-Type: application/proto' \
		--data-binary @- "$@" "$url/$PUSH"
}

get()
{
	curl -s --max-time 20 "$url$1"
}

query()
{
	curl -s --max-time 20 -H 'Content-Type: application/json' -d "$2" \
		"$url/querier.v1.QuerierService/$1"
}

fault()
{
	curl -s --max-time 20 -d "$1" "$url/double/fault" >/dev/null
}

# --- Pushes and what is kept ---------------------------------------------------------------------

start main --store "$WORK/store"
expect "ready" "ready" "$(get /ready)"
"${PROFILE[@]}" request shop 3 "$SPAN" 'GET /a' "$TRACE" 4 00000000000000ab 'GET /b' - 5 - - - \
	>"$WORK/request"
"${PROFILE[@]}" gzip shop 2 "$SPAN" 'GET /a' "$TRACE" >"$WORK/pprof.gz"
"${PROFILE[@]}" pprof shop 1 "$SPAN" 'GET /a' "$TRACE" >"$WORK/pprof"

expect "push" 200 "$(push -A libspanprof/test -H 'X-Custom: yes' -u me:hidden <"$WORK/request")"
expect "push, gzipped body" 200 \
	"$(gzip -c "$WORK/request" | push -H 'Content-Encoding: gzip')"
expect "ingest, raw" 200 "$(curl -s -o "$WORK/body" -w '%{http_code}' \
	--data-binary @"$WORK/pprof" "$url/ingest?name=cart%7Bregion%3Deu%7D&format=pprof")"
expect "ingest, nothing" 200 "$(curl -s -o "$WORK/body" -w '%{http_code}' -d '' \
	"$url/ingest?name=cart&format=pprof")"

cmp "$WORK/store/3.pb" "$WORK/pprof" || fail "the stored pprof is not what was sent"
record=$(<"$WORK/store/1.json")
expect_part "record" '"user-agent":"libspanprof/test"' "$record"
expect_part "record" '"x-custom":"yes"' "$record"
expect_part "record" '"authorization":"Basic"' "$record"
expect_part "record" '"samples":3,"samples_sent":3' "$record"
expect_part "record" '"tenant":"anonymous"' "$record"
expect_part "record" "\"types\":[\"process_cpu:samples:count:cpu:nanoseconds\",\"$TYPE\"]" "$record"
[[ ! -e $WORK/store/4.json ]] || fail "nothing was stored"

stats=$(get /double/stats)
expect_part "stats" '"profiles":3,"requests":4,"samples":7' "$stats"
expect_part "stats" '"empty_ingests":1' "$stats"
expect_part "stats" '"total":1,' "$stats"

spans=$(get /double/spans)
expect_part "spans" "\"$SPAN\":{\"conflicts\":1,\"ns\":70000000,\"rows\":3,\"samples\":7" "$spans"
expect_part "spans" '"00000000000000ab":{"ns":80000000,"rows":2,"samples":8,"service":"shop","span_name":"GET /b","trace_id":""}' "$spans"
expect_part "spans" '"without_span":{"ns":100000000,"rows":2,"samples":10}' "$spans"
expect_part "spans" '"shop":{"ns":240000000,' "$spans"

# --- Refusals ------------------------------------------------------------------------------------

expect "no protobuf" 400 "$(push <<<"no protobuf")"
expect_part "no protobuf" '"code":"invalid_argument"' "$(<"$WORK/body")"
expect "wrong type" 415 "$(push -H 'Content-Type: text/plain' <"$WORK/request")"
expect "GET" 405 "$(curl -s -o "$WORK/body" -w '%{http_code}' "$url/$PUSH")"
expect "bad name" 400 "$(curl -s -o "$WORK/body" -w '%{http_code}' --data-binary @"$WORK/pprof" \
	"$url/ingest?name=a%3Ab&format=pprof")"
expect_part "bad name" 'invalid service name: a:b' "$(<"$WORK/body")"
head -c 3000000 /dev/zero | tr '\0' 'x' >"$WORK/filler"
{
	cat "$WORK/pprof"
	# Field 100, which is unknown, with 3,000,000 bytes.
	printf '\xa2\x06\xc0\x8d\xb7\x01'
	cat "$WORK/filler"
} >"$WORK/large"
expect "3 MB, under the size limit but over the burst" 429 "$(curl -s -o "$WORK/body" \
	-w '%{http_code}' --data-binary @"$WORK/large" "$url/ingest?name=a&format=pprof")"
expect_part "3 MB" 'push rate limit (4.0 MiB) exceeded while adding 2.9 MiB' "$(<"$WORK/body")"

# --- Queries -------------------------------------------------------------------------------------

now=$(date +%s)
range="\"start\":$((now - 600))000,\"end\":$((now + 600))000"
flame=$(query SelectMergeSpanProfile "{\"profileTypeID\":\"$TYPE\",\"spanSelector\":[\"$SPAN\"],
	\"labelSelector\":\"{service_name=\\\"shop\\\"}\",$range}")
expect_part "flame graph" '"names":["total","main","work","leaf"],"total":"60000000"' "$flame"
flame=$(query SelectMergeSpanProfile "{\"profileTypeID\":\"$TYPE\",\"spanSelector\":[\"$SPAN\"],
	\"start\":$((now - 7200))000,\"end\":$((now - 3600))000}")
expect "flame graph of another time" '{"flamegraph":{"levels":[],"names":[]}}' "$flame"
expect "label values" '{"names":["cart","shop"]}' \
	"$(query LabelValues "{\"name\":\"service_name\",$range}")"
expect_part "series" '{"labels":[{"name":"region","value":"eu"}]}' \
	"$(query Series "{\"matchers\":[\"{service_name=\\\"cart\\\"}\"],\"labelNames\":[\"region\"]}")"
expect_part "profile types" "\"ID\":\"$TYPE\"" "$(query ProfileTypes '{}')"

# --- Faults, each once, then well again ----------------------------------------------------------

# Pushes and prints curl's exit status.
curl_exit()
{
	local rc=0

	push <"$WORK/request" >/dev/null || rc=$?
	echo "$rc"
}

before=$(get /double/stats | grep -o '"profiles":[0-9]*')
fault '{"status":429,"retry_after":2,"count":2}'
for _ in 1 2; do
	expect "429" 429 "$(push -D "$WORK/head" <"$WORK/request")"
	grep -qi '^retry-after: 2' "$WORK/head" || fail "429 without Retry-After"
done
fault '{"status":500}'
expect "500" 500 "$(push <"$WORK/request")"
fault '{"reset":true}'
expect "reset (curl 56: connection reset)" 56 "$(curl_exit)"
fault '{"garbage":true}'
expect "garbage (curl 1: no HTTP)" 1 "$(curl_exit)"
fault '{"redirect":"http://127.0.0.1:1/elsewhere"}'
expect "redirect" "302 http://127.0.0.1:1/elsewhere" \
	"$(push -w ' %{redirect_url}' -w '%{http_code} %{redirect_url}' <"$WORK/request")"
expect "none of these was stored" "$before" "$(get /double/stats | grep -o '"profiles":[0-9]*')"

fault '{"close_mid_response":true}'
expect "close_mid_response (curl 18: partial file)" 18 "$(curl_exit)"
fault '{"slow_drip":true,"bytes":20,"interval_ms":10}'
expect "slow_drip" 200 "$(push -w '%{http_code}' <"$WORK/request")"
expect "slow_drip's body" 20 "$(stat -c %s "$WORK/body")"
fault '{"huge_body":true,"bytes":1000000}'
expect "huge_body" 200 "$(push <"$WORK/request")"
expect "huge_body's size" 1000000 "$(stat -c %s "$WORK/body")"
expect "well again" 200 "$(push <"$WORK/request")"
expect_part "stats" '"faults":{"pending":0,"served":9}' "$(get /double/stats)"


# Faults in order, each on its path, several at once or none; at most as many as there is room for.
fault '[{"status":503,"path":"/ready"},{"status":"418","count":"2"},{"status":308,"redirect":"/x"}]'
expect "418" "418 418 308" "$(for _ in 1 2 3; do push <"$WORK/request" && echo; done | xargs)"
expect "503" 503 "$(curl -s -o "$WORK/body" -w '%{http_code}' "$url/ready")"
for nonsense in nonsense 7 '[{"reset":true},{"teapot":1}]' '{"count":2}' '{"status":99}' '{"status":600}' \
	'{"reset":true,"garbage":true}' '{"slow_drip":true,"bytes":4097}' '{"reset":true,"count":-1}'; do
	expect "$nonsense" 400 "$(curl -s -o "$WORK/body" -w '%{http_code}' -d "$nonsense" "$url/double/fault")"
done
expect_part "faults" '"pending":0' "$(get /double/stats)"

fault '{"blackhole":true}'
push <"$WORK/request" >"$WORK/status" &
hole=$!
until get /double/stats | grep -q '"fault:blackhole":1'; do
	kill -0 "$hole" || fail "the black hole answered"
done
expect "others are served meanwhile" 200 "$(push <"$WORK/request")"
curl -s -X DELETE "$url/double/fault" >/dev/null
rc=0
wait "$hole" || rc=$?
expect "blackhole, released (curl 52: empty reply)" 52 "$rc"

# SIGTERM while a request is held: the connection closes and the double ends well.
fault '{"blackhole":true}'
push <"$WORK/request" >"$WORK/status" &
hole=$!
until get /double/stats | grep -q '"fault:blackhole":2'; do
	kill -0 "$hole" || fail "the black hole answered"
done
kill -TERM "$pid"
wait "$pid" || fail "the double ended with $?"
wait "$hole" && fail "the black hole answered"

grep -q '^1 GET "/ready" 200 0 -$' "$WORK/main.log" || fail "no log of the first request"
grep -q ' POST "/push.v1.PusherService/Push" 429 [0-9]* fault:status$' "$WORK/main.log" ||
	fail "no log of the fault"
grep -q hidden "$WORK/main.log" "$WORK"/store/*.json && fail "a password was written down"

# --- Tenants, credentials, clock, faults from the start ------------------------------------------

start tenants --multitenancy --basic me:secret --token t0ken --fault status=503
expect "fault from the start" 503 "$(push -u me:secret <"$WORK/request")"
expect "no credentials" 401 "$(push <"$WORK/request")"
expect "basic, no tenant" 401 "$(push -u me:secret <"$WORK/request")"
expect_part "basic, no tenant" '"message":"no org id"' "$(<"$WORK/body")"
expect "basic" 200 "$(push -u me:secret -H 'X-Scope-OrgID: a' <"$WORK/request")"
expect "bearer" 200 \
	"$(push -H 'Authorization: Bearer t0ken' -H 'X-Scope-OrgID: a' <"$WORK/request")"
expect "wrong bearer" 401 \
	"$(push -H 'Authorization: Bearer other' -H 'X-Scope-OrgID: a' <"$WORK/request")"

start later --now-offset 3700 --limit body=100000
expect "too old" 400 "$(push <"$WORK/request")"
expect_part "too old" 'is outside of ingestion window' "$(<"$WORK/body")"
expect "too large a body" 400 "$(push <"$WORK/filler")"

# Answers are as late as the server's by default; refusals and queries are not late.
took_ms()
{
	local began=${EPOCHREALTIME/./}

	"$@" >/dev/null
	echo $(((${EPOCHREALTIME/./} - began) / 1000))
}
expect_late()
{
	(($3 >= $2)) || fail "$1: answered after $3 ms"
}
start late --ack-delay 300-1000
expect_late "a push" 300 "$(took_ms push <"$WORK/request")"
expect_late "another" 300 "$(took_ms push <"$WORK/request")"
get /double/stats >"$WORK/late"
expect_part "late" '"profiles":2' "$(<"$WORK/late")"
start later_still --ack-delay 5000
(("$(took_ms push <"$WORK/filler")" < 5000)) || fail "a refusal came late"
# A client that does not wait for the answer has pushed all the same.
rc=0
push -m 1 <"$WORK/request" >"$WORK/status" || rc=$?
expect "a client without patience (curl 28: timeout)" 28 "$rc"
expect_part "it is stored" '"profiles":1' "$(get /double/stats)"
"$DOUBLE" --ack-delay 1000-300 2>/dev/null && fail "a delay that ends before it begins"

# Stored, but the client never gets the answer.
start unheard
fault '{"stored_reset":true}'
rc=0
push <"$WORK/request" >"$WORK/status" || rc=$?
((rc == 52 || rc == 56)) || fail "stored_reset: curl ended with $rc"
expect_part "it is stored" '"profiles":1' "$(get /double/stats)"

"$DOUBLE" --port-file "$WORK/port.txt" &
STARTED+=($!)
until [[ -e $WORK/port.txt ]]; do
	kill -0 $! || fail "no port file"
done
url=http://127.0.0.1:$(<"$WORK/port.txt")
expect "port file" "ready" "$(get /ready)"
expect_late "a push, where nobody says how late" 300 "$(took_ms push <"$WORK/request")"

"$DOUBLE" --fault teapot 2>"$WORK/usage.log" && fail "a bad fault was taken"
expect_part "bad fault" "bad fault: 'teapot'" "$(<"$WORK/usage.log")"
echo "pyroscope_double: ok"
