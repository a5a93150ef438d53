#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Proves that the demo's checks work: a profile that agrees with the server passes, and each kind of disagreement,
# inserted one at a time, fails with the line that names it.
set -euo pipefail
cd "$(dirname "$0")/../.."

readonly SUMMARY=$PWD/${SPANPROF_DEMO_BUILD:-build}/test/rideshare/summary
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"

die()
{
	echo "FAIL: $*" >&2
	cat out >&2
	exit 1
}

# Two vehicles, 60 and 40 percent, one span each; 2 percent of the profile is outside any span.
good_input()
{
	cat >truth.json <<-END
		{"process_cpu_ns": 1100, "vehicles": [
		 {"span_name": "car", "orders": 1, "cpu_ns": 600},
		 {"span_name": "bike", "orders": 1, "cpu_ns": 400}]}
	END
	cat >report.json <<-END
		{"total": {"samples": 100, "ns": 1000}, "labelled": {"samples": 98, "ns": 980},
		 "span_names": [{"span_name": "car", "spans": 1, "samples": 59, "ns": 590},
		                {"span_name": "bike", "spans": 1, "samples": 39, "ns": 390}],
		 "spans": [{"span_id": "00000000000000a1", "span_name": "car", "samples": 59, "ns": 590},
		           {"span_id": "00000000000000b2", "span_name": "bike", "samples": 39, "ns": 390}],
		 "functions": [{"function": "slow", "self_ns": 1, "total_ns": 2},
		               {"function": "hot", "self_ns": 3000000, "total_ns": 3000000}]}
	END
	cat >spans.json <<-END
		{"name":"car","span_id":"00000000000000a1","start_ns":1000000,"end_ns":2000000,"attributes":{"pyroscope.profile.id":"00000000000000a1","pyroscope.profile.url":"http://a"}}
		{"name":"bike","span_id":"00000000000000b2","start_ns":1000000,"end_ns":4000000,"attributes":{"pyroscope.profile.id":"00000000000000b2"}}
	END
}

table()
{
	"$SUMMARY" table --report report.json --truth truth.json --spans spans.json "$@" >out 2>&1
}

# fault FILE SED_EXPRESSION EXPECTED_LINE
fault()
{
	good_input
	sed -i "$2" "$1"
	! table || die "passed although $1 had: $2"
	grep -q -- "$3" out || die "no line \"$3\" although $1 had: $2"
}

good_input
table || die "rejected a profile that agrees"

# The owners of the time outside of spans: the stacks of everything minus those of spans.
printf '%s\n' 'start_thread;libmicrohttpd.so.12+0x1;answer_request;work 900000000' \
	'start_thread;libmicrohttpd.so.12+0x1;accept4 30000000' '[unsampled cpu] 20000000' \
	'start_thread;void opentelemetry::v1::sdk::Run() 40000000' >all.folded
echo 'start_thread;libmicrohttpd.so.12+0x1;answer_request;work 890000000' >in_spans.folded
table --all all.folded --in-spans in_spans.folded || die "rejected a profile that agrees"
for line in '0.01   the server: an order' '0.03   libmicrohttpd:' '0.02   between two samples' \
	'0.04   the OpenTelemetry SDK'; do
	grep -q "^ *$line" out || die "no line \"$line\""
done
! grep -q 'others$' out || die "more than there is"

fault report.json 's/"ns": 590}/"ns": 790}/' 'FAIL every span name'
fault report.json 's/"span_name": "car", "spans"/"span_name": "cab", "spans"/' 'FAIL every span name'
fault truth.json 's/"cpu_ns": 600/"cpu_ns": 500/' 'FAIL every span name'
grep -A1 'FAIL every span name' out | grep -q 'too few.*SPANPROF_DEMO_SECONDS' || die "no word of why"
fault report.json 's/"ns": 980/"ns": 949/' 'FAIL at least 95 %'
fault report.json 's/"span_id": "00000000000000a1"/"span_id": "00000000000000a3"/' 'FAIL every labelled span id'
grep -A1 'FAIL every labelled' out | grep -q 'the SDK dropped spans' || die "no word of why"
fault report.json '/"spans": \[/s/\[.*/[],/; /00000000000000b2/d' 'FAIL every labelled span id'
fault spans.json 's/profile.id":"00000000000000b2/profile.id":"00000000000000a1/' 'FAIL ... whose'
fault spans.json 's/pyroscope.profile.id/profile.id/' 'FAIL ... whose'
fault spans.json '2s/}}/}/' 'not a span'
fault report.json 's/"functions"/"function"/' 'no "functions"'

good_input
[[ $("$SUMMARY" slowest --report report.json --spans spans.json) == 00000000000000b2 ]] ||
	die "the slowest span is not the longest one"
"$SUMMARY" span --report report.json --spans spans.json --id 00000000000000a1 >out ||
	die "rejected a span with a link"
[[ $(grep -A1 'flat ms' out) == *3.0*hot ]] || die "the hottest function is not the first"
! "$SUMMARY" span --report report.json --spans spans.json --id 00000000000000b2 >out ||
	die "accepted a span without a link"
sed -i '/"hot"/d; s/"functions": .*/"functions": []}/' report.json
! "$SUMMARY" span --report report.json --spans spans.json --id 00000000000000a1 >out ||
	die "accepted a span without functions"
grep -q "FAIL the span's samples have functions" out || die "no line about missing functions"
# An order that waited: the attributes of its span are compared with the server's own clocks.
order_that_waited()
{
	good_input
	cat >spans.json <<-END
		{"name":"car","span_id":"00000000000000a1","start_ns":0,"end_ns":900000000,"attributes":{"ride.ledger_ns":0,"ride.bank_ns":0}}
		{"name":"bike","span_id":"00000000000000b2","start_ns":0,"end_ns":700000000,"attributes":{"spanprof.cpu_time_ns":20000000,"spanprof.off_cpu_time_ns":679000000,"ride.cpu_ns":20000000,"ride.ledger_ns":310000000,"ride.bank_ns":360000000}}
	END
}

waits()
{
	"$SUMMARY" waits --report report.json --spans spans.json --id 00000000000000b2 >out 2>&1
}

# wait_fault SED_EXPRESSION EXPECTED_LINE
wait_fault()
{
	order_that_waited
	sed -i "$1" spans.json
	! waits || die "passed although spans.json had: $1"
	grep -q -- "$2" out || die "no line \"$2\" although spans.json had: $1"
}

order_that_waited
[[ $("$SUMMARY" slow --report report.json --spans spans.json) == 00000000000000b2 ]] ||
	die "the slow order is not the one that knows where its time went"
waits || die "rejected an order that agrees"
grep -q '^  off a CPU *679.0 ms *670.0 ms$' out || die "the row of its waits is not there"
wait_fault 's/"end_ns":700000000/"end_ns":720000000/' 'FAIL CPU and off-CPU time'
wait_fault 's/ride.ledger_ns":310000000/ride.ledger_ns":160000000/' 'FAIL it was off the CPU'
order_that_waited
sed -i 's/spanprof.cpu_time_ns":20000000/spanprof.cpu_time_ns":200000000/' spans.json
! "$SUMMARY" slow --report report.json --spans spans.json >out 2>&1 || die "an order that computed is slow"

# Which orders waited for which.
holders()
{
	good_input
	cat >spans.json <<-END
		{"name":"car","span_id":"00000000000000a1","start_ns":0,"end_ns":1,"attributes":{"ride.ledger_ns":200000000,"ride.ledger_holder":"bike"}}
		{"name":"car","span_id":"00000000000000a2","start_ns":0,"end_ns":1,"attributes":{"ride.ledger_ns":100000000,"ride.ledger_holder":"bike"}}
		{"name":"bike","span_id":"00000000000000b2","start_ns":0,"end_ns":1,"attributes":{"ride.ledger_ns":5000000}}
	END
	sed -i '$d' report.json
	cat >>report.json <<-END
		               {"function": "hot", "self_ns": 3000000, "total_ns": 3000000}], "waited_for": [
		 {"span_name": "car", "held_by": "bike in ask", "samples": 9, "ns": 260000000},
		 {"span_name": "car", "held_by": "bike", "samples": 991, "ns": 30000000}]}
	END
	sed -i "${1:-}" report.json
	"$SUMMARY" holders --report report.json --spans spans.json >out 2>&1
}

holders || die "rejected waits that agree"
grep -q '^  car: bike in ask *290.0 ms *300.0 ms$' out || die "the row of who waited is not there"
for fault in s/260000000/360000000/ s/260000000/160000000/; do
	! holders "$fault" || die "passed although report.json had: $fault"
	grep -q 'FAIL orders waited for each other' out || die "no word of how long"
done
! holders 's/"bike in ask"/"bikes"/' || die "passed with a holder that there was not"
grep -q 'FAIL and for nobody else (260.0 ms)' out || die "no word of the wrong holder"
# The sentences about the slowest orders: their figures are compared with the server's clocks.
sentences()
{
	cat >spans.json <<-END
		{"name":"scooter","span_id":"00000000000000a1","start_ns":0,"end_ns":1,"attributes":{"ride.order_ns":578200000,"ride.cpu_ns":10600000,"ride.ledger_ns":243300000,"ride.bank_ns":302100000,"ride.ledger_holder":"scooter"}}
		{"name":"car","span_id":"00000000000000a2","start_ns":0,"end_ns":1,"attributes":{"ride.order_ns":1340000000,"ride.cpu_ns":1060000000,"ride.ledger_ns":280000000,"ride.bank_ns":0,"ride.ledger_holder":"scooter"}}
		{"name":"bike","span_id":"00000000000000b2","start_ns":0,"end_ns":1,"attributes":{"ride.order_ns":310000000,"ride.cpu_ns":20000000,"ride.ledger_ns":5000000,"ride.bank_ns":0}}
	END
	cat >slow.json <<-END
		{"requests": [
		 {"span_id": "00000000000000a1", "span_name": "scooter", "waits": [{"samples": 12}, {"samples": 15}], "sentence":
		  "578 ms, 545 ms more than the median of scooter: 300 ms waiting for a socket (recvfrom) in ask, 245 ms waiting for a lock held by scooter in ask"},
		 {"span_id": "00000000000000a2", "span_name": "car", "waits": [{"samples": 14}], "sentence":
		  "1.34 s, 1.20 s more than the median of car: 1.02 s in search, about 285 ms waiting for a lock held by scooter in ask"},
		 {"span_id": "00000000000000b2", "span_name": "bike", "waits": [], "sentence":
		  "310 ms, 245 ms more than the median of bike: 290 ms waiting for a CPU; the profiles do not say what it waited for"}]}
	END
	echo "wrote slow.html: 9 slow requests" >slow.txt
	sed -n 's/^ *"\([0-9].*\)"}.*/\1/p' slow.json | cat -n | sed 's/^ *\([0-9]*\)\t/\1. /' >>slow.txt
	sed -i "${1:-}" slow.json
	sed -i "${2:-}" slow.txt
	"$SUMMARY" sentences --slowest slow.json --printed slow.txt --spans spans.json >out 2>&1
}

sentences || die "rejected sentences that agree"
grep -q '^     waiting for a socket (recvfrom) in ask *300.0 ms *302.1 ms$' out || die "the row of the bank is not there"
grep -q 'their 8 figures are' out || die "not all figures are compared"

# sentence_fault SED_EXPRESSION EXPECTED_LINE: that is said otherwise, and printed so.
sentence_fault()
{
	! sentences "$1" "$1" || die "passed although the sentences had: $1"
	grep -q -- "$2" out || die "no line \"$2\" although the sentences had: $1"
}

for fault in 's/578 ms/600 ms/' 's/300 ms waiting/620 ms waiting/' 's/300 ms waiting/20 ms waiting/' 's/about 285 ms/about 3 ms/' \
	's/1.02 s in search/1.42 s in search/' 's/290 ms waiting for a CPU/290 ms sleeping/'; do
	sentence_fault "$fault" 'FAIL their 8 figures are'
done
sentence_fault 's/held by scooter/held by bike/' 'FAIL and so is who held the lock (2 are not)'
sentence_fault 's/290 ms waiting for a CPU; the/the/' 'FAIL there are 3 sentences.*(3, 1 without)'
! sentences '' '4d' || die "passed with two sentences"
grep -q 'FAIL there are 3 sentences.*(2, 0 without)' out || die "no word of the sentence that is not there"
! sentences '' 's/578 ms/57 ms/' || die "passed with a sentence that the report does not say"
! sentences 's/00000000000000b2/00000000000000b3/' || die "passed with a span that the server does not have"
grep -q 'FAIL there are 3 sentences.*(3, 1 without)' out || die "no word of the span that is not there"
echo "26 faults found, 11 questions answered"
