#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A server with limits below our profiles: on bytes, on samples, by its budget or by a proxy in front of it.
# Everything that fits in parts arrives, once, and one sentence reports the rest. The double plays a tenant with
# limits of its own.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3 curl
# Even on a busy machine all samples are in one profile.
export SPANPROF_UPLOAD_INTERVAL=1h SPANPROF_SAMPLE_RATE=250 SPANPROF_FLUSH_TIMEOUT=20s
# A profile of one sample has 800 bytes as a rule and 1,600 with a deep stack; compressed 600 and 900.
readonly TAKEN='d["samples"]["with_span"] + d["samples"]["without_span"]'

# try NAME [VARIABLE=VALUE]...
try()
{
	local name=$1

	shift
	run_under "$name" SPANPROF_STATUS_FILE="$WORK/$name.json" SPANPROF_SERVER_ADDRESS="$DOUBLE_URL" \
		"$@" "$HOSTS/requests" 300000 80
	expect_rc "$name" 19
	double_get /double/stats "$WORK/stats.json"
	double_get /double/spans "$WORK/spans.json"
	printf '%-20s %4s profiles, %4s of %4s samples; refused %s\n' "$name" \
		"$(ask "$WORK/spans.json" 'd["profiles"]')" \
		"$(ask "$WORK/spans.json" 'd["total"].get("samples", 0)')" \
		"$(ask "$WORK/$name.json" "$TAKEN")" "$(ask "$WORK/stats.json" 'd["rejected"]')"
}

# halved NAME REASON: the limit was reached, and no sample is lost.
halved()
{
	expect "$WORK/stats.json" "d['rejected'].get('$2', 0) > 0 and len(d['rejected']) == 1"
	expect "$WORK/stats.json" 'd["silently_dropped"]["total"] == 0'
	expect "$WORK/$1.json" "$TAKEN > 0 and set(d['loss'].values()) == {0}"
	expect "$WORK/$1.json" "$TAKEN == $(ask "$WORK/spans.json" 'd["total"]["samples"]')"
	if grep 'lost' "$WORK/$1.err" >&2; then
		fail "$1: nothing was lost"
	fi
}

double_start --ack-delay 0
try well
expect "$WORK/stats.json" 'd["rejected"] == {}'

for protocol in push ingest; do
	export SPANPROF_PROTOCOL=$protocol
	double_start --ack-delay 0 --limit samples=7
	try "samples_$protocol"
	halved "samples_$protocol" samples_limit
	double_start --ack-delay 0 --limit profile=2500
	try "bytes_$protocol"
	halved "bytes_$protocol" profile_size_limit
	# A proxy in front of the server limits the compressed request.
	double_start --ack-delay 0 --limit body=1400
	try "body_$protocol"
	halved "body_$protocol" body_limit
done
unset SPANPROF_PROTOCOL

# A budget smaller than the profile: the server's answer is the same as for a budget that is used up.
double_start --ack-delay 0 --limit burst=2800
try budget
halved budget rate_limited

# Not even one sample fits: all samples are reported and counted as lost.
double_start --ack-delay 0 --limit profile=100
try nothing_fits
expect "$WORK/nothing_fits.json" \
	"$TAKEN == d['loss']['samples_in_lost_batches'] and d['push']['last_success_unix_ms'] is None"
expect "$WORK/nothing_fits.json" "d['loss']['batches_rejected_by_server'] > 0"
grep -Eq '^spanprof\[[0-9]+\]: [0-9]+ profiles? lost: the server refused (it|them) \(400\), [0-9]+ samples' \
	"$WORK/nothing_fits.err" || fail "it was not told: $(<"$WORK/nothing_fits.err")"
(($(grep -c 'spanprof\[' "$WORK/nothing_fits.err") <= 8)) || fail "it was told too often"
