#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# "spanprof-report --serve" serves pages and reports to this machine only, and nothing else, whatever the request. If
# a browser is installed, a page shows new profiles as they are written.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3 curl
readonly REPORT=$TEST_BUILD/spanprof-report SERVE=$ROOT/test/e2e/report_serve.py

mkdir "$WORK/profiles"
python3 "$SERVE" profile "$WORK/profiles"
# An empty file, as after a loss of power.
: >"$WORK/profiles/empty.pb.gz"
"$REPORT" --serve 0 "$WORK/profiles" >"$WORK/said" 2>&1 </dev/null &
STARTED+=("$!")
disown "$!"
poll_until 20 grep -q '^http://127.0.0.1:[0-9]*/' "$WORK/said" || fail "it does not start: $(<"$WORK/said")"
port=$(sed -E 's|^http://127.0.0.1:([0-9]+)/.*|\1|' "$WORK/said")

# get PATH...: writes the body into $WORK/body, prints the status
get()
{
	curl -sS --noproxy '*' -o "$WORK/body" -D "$WORK/head" -w '%{http_code}' "http://127.0.0.1:$port$1"
}

# Only at the loopback addresses.
listening=$(printf ':%04X .* 0A ' "$port")
[[ $(grep -h -- "$listening" /proc/net/tcp | awk '{ print $2 }') == "0100007F:$(printf %04X "$port")" ]] ||
	fail "it listens elsewhere: $(grep -h -- "$listening" /proc/net/tcp)"
if grep -h -- "$listening" /proc/net/tcp6 | grep -v " 00000000000000000000000001000000:"; then
	fail "it listens elsewhere"
fi

[[ $(get /) == 200 ]] || fail "no page"
grep -qi "^Content-Security-Policy: default-src 'none'; script-src 'self';" "$WORK/head" || fail "$(<"$WORK/head")"
grep -qi '^X-Content-Type-Options: nosniff' "$WORK/head" || fail "$(<"$WORK/head")"
grep -oE '(src|href)="[^"]*"' "$WORK/body" | grep -oE '/[^"]*' >"$WORK/files"
(($(wc -l <"$WORK/files") == 3)) || fail "$(<"$WORK/files")"
while read -r file; do
	[[ $(get "$file") == 200 && -s $WORK/body ]] || fail "no $file"
done <"$WORK/files"
[[ $(get /profile.json) == 200 ]] || fail "no profile"
expect "$WORK/body" 'd["profile"]["title"] == "CPU time" and "pay" in d["profile"]["names"]'
[[ $(get '/profile.json?span=00000000000000aa') == 200 ]] || fail "no profile of a span"
expect "$WORK/body" 'd["profile"]["title"] == "CPU time of span 00000000000000aa (POST /cart)"'
[[ $(get '/profile.json?span=00000000000000bb&diff=spans') == 200 ]] || fail "no comparison"
expect "$WORK/body" 'd["profile"]["diff"]'
[[ $(get '/profile.json?span=00000000000000ad') == 200 ]] || fail "no answer about what is not there"
expect "$WORK/body" 'd["error"].startswith("there is no span")'
[[ $(get '/spans.json?span_name=POST+%2Fcart') == 200 ]] || fail "no spans"
expect "$WORK/body" 'len(d["span_names"]) == 2 and [s["span_id"] for s in d["spans"]] == ["00000000000000aa"]'

python3 "$SERVE" hostile "$port" || fail "a hostile request"
python3 "$SERVE" news "$port" "$WORK/profiles" || fail "files that come, change and go"

# A list has an end, and says how many items there are.
python3 "$SERVE" names "$WORK/profiles"
[[ $(get /spans.json) == 200 ]] || fail "no long lists"
expect "$WORK/body" 'len(d["span_names"]) == 1000 and d["all_span_names"] == 1202'
expect "$WORK/body" 'len(d["spans"]) == 200 and d["all_spans"] == 1203'
[[ $(get '/spans.json?span_name=name+7') == 200 ]] || fail "no spans of a name"
expect "$WORK/body" 'len(d["spans"]) == 1 and d["all_spans"] == 1'
rm "$WORK/profiles/names.pb.gz"

run busy "$REPORT" --serve "$port" "$WORK/profiles"
expect_rc busy 2
grep -q '^spanprof-report: --serve: cannot listen at 127.0.0.1: Address already in use$' "$WORK/busy.err" ||
	fail "$(<"$WORK/busy.err")"

result=0
python3 "$SERVE" look "$port" "$WORK/profiles" || result=$?
((result == 0 || result == 77)) || fail "the page is not as it should be"
# Besides the address, one message: the file that was unreadable for a while.
[[ $(wc -l <"$WORK/said") == 2 && $(grep -c 'first.pb.gz: not a pprof profile$' "$WORK/said") == 1 ]] ||
	fail "it said other things: $(<"$WORK/said")"
