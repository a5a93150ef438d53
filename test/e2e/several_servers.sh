#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Several servers: each has every profile, whoever is dead or slow beside it; each gets its own credentials and no other,
# by what two real listeners saw of each request; the status and messages say whose failure it is.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3 curl
export SPANPROF_SAMPLE_RATE=250 SPANPROF_UPLOAD_INTERVAL=300ms SPANPROF_PUSH_QUEUE_CAPACITY=128

declare -A URL=()

# A double that keeps what it took in that folder.
start()
{
	mkdir -p "$WORK/$1"
	double_start --ack-delay 0 --store "$WORK/$1" "${@:2}"
	URL[$1]=$DOUBLE_URL
}

# What each profile is: begin, process and type are the same at every server.
profiles_at()
{
	python3 - "$WORK/$1" <<-'END'
		import glob, json, sys
		rows = [json.load(open(f)) for f in glob.glob(sys.argv[1] + "/*.json")]
		print("\n".join(sorted("%d %s %s %d" % (r["time_nanos"], r["labels"].get("pid"), r["types"], r["samples_sent"])
		                       for r in rows)))
	END
}

# same_profiles A B: both have the same, and something.
same_profiles()
{
	[[ -n $(profiles_at "$1") ]] || fail "$1 has nothing"
	diff <(profiles_at "$1") <(profiles_at "$2") >&2 || fail "$1 and $2 differ"
}

readonly SUM='d["samples"]["drained"] == d["samples"]["sent"] + d["samples"]["unsampled"] + d["loss"]["samples_in_lost_batches"]'

# Two that are well.
start a
start b
run_under both SPANPROF_SERVER_ADDRESS="${URL[a]},${URL[b]}" SPANPROF_WALL=true SPANPROF_STATUS_FILE="$WORK/both.json" \
	"$HOSTS/spend" 1200
expect_rc both 7
expect_silent both
same_profiles a b
expect "$WORK/both.json" "$SUM"
expect "$WORK/both.json" 'set(d["loss"].values()) == {0}'
expect "$WORK/both.json" 'len(d["pushes"]) == 2 and d["push"]["address"] == d["pushes"][0]["address"]'
expect "$WORK/both.json" 'all(p["samples_sent"] == d["samples"]["sent"] > 0 and p["samples_lost"] == 0 for p in d["pushes"])'
build/spanprof-report --status "$WORK/both.json" >"$WORK/both.txt"
[[ $(grep -c '^push ' "$WORK/both.txt") == 2 ]] || fail "the report shows another number of servers: $(<"$WORK/both.txt")"
grep -q "^push      to ${URL[b]}, " "$WORK/both.txt" || fail "the report does not name ${URL[b]}"

# A server is dead or hangs, first or last in the list. The good server has everything, and no sample counts as lost.
one_is_bad()
{
	local name=$1 bad=$2 first=$3 good

	start "$name"
	good=${URL[$name]}
	if [[ $first == bad ]]; then
		run_under "$name" SPANPROF_SERVER_ADDRESS="$bad,$good" SPANPROF_STATUS_FILE="$WORK/$name.json" "$HOSTS/spend" 1200
	else
		run_under "$name" SPANPROF_SERVER_ADDRESS="$good,$bad" SPANPROF_STATUS_FILE="$WORK/$name.json" "$HOSTS/spend" 1200
	fi
	expect_rc "$name" 7
	expect "$WORK/$name.json" "$SUM"
	expect "$WORK/$name.json" 'd["loss"]["samples_in_lost_batches"] == 0'
	ask "$WORK/$name.json" "[d['samples']['sent'] - p['samples_sent'] for p in d['pushes'] if p['address'] != '$bad']" |
		grep -qx '\[0\]' || fail "$name: the good server has not everything"
	expect "$WORK/$name.json" "[p['samples_sent'] for p in d['pushes'] if p['address'] == '$bad'] == [0]"
	expect "$WORK/$name.json" "[p['samples_lost'] == d['samples']['sent'] > 0 for p in d['pushes'] if p['address'] == '$bad'] == [True]"
	expect "$WORK/$name.json" "any('$bad' in p['text'] for p in d['problems'])"
	expect "$WORK/$name.json" "not any('$good' in p['text'] for p in d['problems'])"
	double_get /double/stats "$WORK/stats.json"
	[[ $(ask "$WORK/stats.json" 'd["accepted"]["profiles"]') == "$(profiles_at "$name" | wc -l)" ]] || fail "$name: double and folder differ"
	grep -q "spanprof\[.*push to $bad failed" "$WORK/$name.err" || fail "$name: the failure is not told: $(<"$WORK/$name.err")"
	grep -q "spanprof\[.*lost at $bad: " "$WORK/$name.err" || fail "$name: the loss is not told: $(<"$WORK/$name.err")"
}

dead=http://127.0.0.1:$(refused_port)
one_is_bad second "$dead" bad
one_is_bad first "$dead" good
# A server that says nothing delays the end by SPANPROF_FLUSH_TIMEOUT. The good server is served meanwhile.
double_start --ack-delay 0 --fault blackhole,count=0
one_is_bad beside "$DOUBLE_URL" bad
(($(result beside.ms) < 1200 + 3000 * EXIT_LIMIT_S)) || fail "the end took $(result beside.ms) ms"

# Credentials: two listeners write down the whole head of each request.
cat >"$WORK/listener.py" <<'END'
import http.server, json, sys

class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        with open(sys.argv[2], "a") as log:
            log.write(json.dumps(sorted((k.lower(), v) for k, v in self.headers.items())) + "\n")
        self.send_response(200)
        self.send_header("Content-Type", "application/proto")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args):
        pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
with open(sys.argv[1] + ".partial", "w") as f:
    f.write(str(server.server_address[1]))
import os
os.rename(sys.argv[1] + ".partial", sys.argv[1])
server.serve_forever()
END
listen()
{
	python3 "$WORK/listener.py" "$WORK/$1.port" "$WORK/$1.log" &
	STARTED+=($!)
	disown $!
	poll_until 10 test -s "$WORK/$1.port" || fail "no listener"
	URL[$1]=http://127.0.0.1:$(<"$WORK/$1.port")
}

# seen LOG: the values of headers that are credentials, one line for each different head.
seen()
{
	python3 - "$WORK/$1.log" <<-'END'
		import json, sys
		names = ("authorization", "x-scope-orgid", "x-file")
		print("\n".join(sorted({json.dumps([h for h in map(tuple, json.loads(line)) if h[0] in names])
		                        for line in open(sys.argv[1])})))
	END
}

listen one
listen two
printf 'token-of-one' >"$WORK/token"
printf '{"X-File":"of-two"}' >"$WORK/headers"
run_under secrets SPANPROF_SERVER_ADDRESS="${URL[one]}, ${URL[two]}" \
	SPANPROF_AUTH_TOKEN_FILE="$WORK/token," SPANPROF_BASIC_AUTH_USER=,user-of-two \
	SPANPROF_BASIC_AUTH_PASSWORD=,secret-of-two SPANPROF_TENANT_ID=tenant-of-one,tenant-of-two \
	SPANPROF_HTTP_HEADERS_FILE=",$WORK/headers" "$HOSTS/spend" 900
expect_rc secrets 7
expect_silent secrets
[[ $(seen one) == '[["authorization", "Bearer token-of-one"], ["x-scope-orgid", "tenant-of-one"]]' ]] ||
	fail "the first server got: $(seen one)"
[[ $(seen two) == '[["authorization", "Basic '$(printf 'user-of-two:secret-of-two' | base64)'"], ["x-file", "of-two"], ["x-scope-orgid", "tenant-of-two"]]' ]] ||
	fail "the second server got: $(seen two)"
for other in one:two two:one; do
	if grep -q -- "-of-${other#*:}" "$WORK/${other%:*}.log"; then
		fail "${other%:*} got something of ${other#*:}"
	fi
done

# What cannot be told apart goes to nobody, and no secret is on stderr.
refuse()
{
	local name=$1 message=$2

	rm -f "$WORK"/{one,two}.log
	run_under "$name" "${@:3}" "$HOSTS/spend" 300
	expect_rc "$name" 7
	grep -q "spanprof\[.*$message" "$WORK/$name.err" || fail "$name: not told: $(<"$WORK/$name.err")"
	if grep -q 'hush' "$WORK/$name.err"; then
		fail "$name: a secret on stderr: $(<"$WORK/$name.err")"
	fi
	[[ ! -e $WORK/one.log && ! -e $WORK/two.log ]] || fail "$name: something was pushed"
}
readonly BOTH="${URL[one]},${URL[two]}"
refuse single 'SPANPROF_AUTH_TOKEN: is not a list with one element for each of the 2 servers; nothing is pushed' \
	SPANPROF_SERVER_ADDRESS="$BOTH" SPANPROF_AUTH_TOKEN=hush
refuse three 'SPANPROF_TENANT_ID: is not a list' SPANPROF_SERVER_ADDRESS="$BOTH" SPANPROF_TENANT_ID=hush,b,c
refuse headers 'SPANPROF_HTTP_HEADERS: cannot be for several servers' SPANPROF_SERVER_ADDRESS="$BOTH" \
	SPANPROF_HTTP_HEADERS='{"Authorization":"hush"}'
refuse file 'SPANPROF_AUTH_TOKEN_FILE: element 2 of the list is not an absolute path' SPANPROF_SERVER_ADDRESS="$BOTH" \
	SPANPROF_AUTH_TOKEN_FILE=/dev/null,hush
refuse five 'SPANPROF_SERVER_ADDRESS: server 5 of the list is one too many' \
	SPANPROF_SERVER_ADDRESS="$BOTH,http://c,http://u:hush@d,http://e"
refuse empty 'SPANPROF_SERVER_ADDRESS: server 2 of the list is empty' SPANPROF_SERVER_ADDRESS="${URL[one]},,${URL[two]}"
refuse twice 'SPANPROF_SERVER_ADDRESS: names a server twice' SPANPROF_SERVER_ADDRESS="${URL[one]},${URL[one]}"
refuse scheme 'SPANPROF_SERVER_ADDRESS: has no valid host and port' SPANPROF_SERVER_ADDRESS="${URL[one]},${URL[two]#http://}"
