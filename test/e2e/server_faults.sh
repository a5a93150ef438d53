#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2119
# Whatever is wrong with the server, the host's requests are as fast as ever, its end is not held up,
# its memory does not grow, it is told once what was lost, and what can still be sent is sent.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3 curl
readonly HOST_MS=2500
export SPANPROF_UPLOAD_INTERVAL=250ms SPANPROF_FLUSH_TIMEOUT=2s SPANPROF_PUSH_TIMEOUT=1s
# The stand-in for a bad day: retries within the life of the host.
export SPANPROF_SAMPLE_RATE=100

value()
{
	awk -v name="$2" '$1 == name { print $2 }' "$WORK/$1.out"
}

# try NAME ADDRESS: runs the host and checks what must hold in any case.
try()
{
	local name=$1 address=$2

	run_under "$name" SPANPROF_SERVER_ADDRESS="$address" "$HOSTS/requests" "$HOST_MS"
	expect_rc "$name" 19
	# Compared with the run without us, and generously: a machine may stutter.
	(($(value "$name" slow) <= $(value plain slow) + 2)) ||
		fail "$name: $(value "$name" slow) of $(value "$name" handled) requests were slow"
	(($(value "$name" handled) * 2 >= $(value plain handled))) ||
		fail "$name: $(value "$name" handled) requests, $(value plain handled) without us"
	(($(result "$name.ms") <= HOST_MS + 1000 * EXIT_LIMIT_S)) ||
		fail "$name: ended after $(result "$name.ms") ms"
	(($(value "$name" peak_kib) <= $(value well peak_kib) + 16384)) ||
		fail "$name: $(value "$name" peak_kib) KiB, $(value well peak_kib) KiB when all is well"
}

# lost NAME COUNTER: the summary on stderr names it.
lost()
{
	grep -Eq "^spanprof\[[0-9]+\]: .*lost.*$2" "$WORK/$1.err" || {
		cat "$WORK/$1.err" >&2
		fail "$1: no line says that $2"
	}
}

# told NAME: a few lines, not one per upload.
told()
{
	local lines

	lines=$(grep -c 'spanprof\[' "$WORK/$1.err" || true)
	((lines >= 1 && lines <= 12)) || {
		cat "$WORK/$1.err" >&2
		fail "$1: $lines messages"
	}
}

# arrived [ARGUMENT]...: the double has profiles of this host after all.
arrived()
{
	double_get /double/stats "$WORK/stats.json"
	expect "$WORK/stats.json" 'd["accepted"]["profiles"] > 0'
	expect "$WORK/stats.json" 'd["silently_dropped"]["total"] == 0'
	expect "$WORK/stats.json" 'd["faults"]["served"] > 0'
}

run plain "$HOSTS/requests" "$HOST_MS"
double_start
run_under well SPANPROF_SERVER_ADDRESS="$DOUBLE_URL" "$HOSTS/requests" "$HOST_MS"
expect_silent well
expect_clean_double

try refused "http://127.0.0.1:$(refused_port)"
told refused
lost refused batches_unsent_at_exit

double_start --fault blackhole=1,count=0
try blackhole "$DOUBLE_URL"
told blackhole
lost blackhole batches_unsent_at_exit

double_start --fault slow_drip=1,bytes=64,interval_ms=20,count=3
try slow "$DOUBLE_URL"
arrived

double_start --fault status=429,retry_after=1,count=1
try too_many "$DOUBLE_URL"
arrived
# It waited as told: never two requests within the second.
double_get /double/stats "$WORK/stats.json"
expect "$WORK/stats.json" 'd["requests"]["429"] == 1'

double_start --fault status=500,count=2
try broken "$DOUBLE_URL"
arrived
expect "$WORK/stats.json" 'd["requests"]["500"] == 2'

double_start --fault status=400,count=1
try bad_request "$DOUBLE_URL"
told bad_request
lost bad_request batches_rejected_by_server
arrived

double_start --fault close_mid_response=1,count=1
try closed "$DOUBLE_URL"
arrived

double_start --fault reset=1,count=1
try reset "$DOUBLE_URL"
arrived

double_start --fault huge_body=1,bytes=67108864,count=2
try huge "$DOUBLE_URL"
arrived

double_start --fault garbage=1,count=1
try garbage "$DOUBLE_URL"
arrived
