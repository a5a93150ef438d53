#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A process that ends while the exporter is being loaded, or before: its constructors are over when
# the first destructor runs, and none begins after that, also where nothing is to be flushed. The
# libraries it stands on may be the program's too, and destroyed by then.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

mkdir "$WORK/objects"
cp "$SO" "$WORK/objects/libspanprof.so"
cp "$TEST_LIBS/libslow_exporter.so" "$WORK/objects/libspanprof-export.so"

# ends NAME FLUSH_TIMEOUT ARGUMENT: sets TOLD.
ends()
{
	run "$1" LD_PRELOAD="$WORK/objects/libspanprof.so" SPANPROF_FLUSH_TIMEOUT="$2" \
		SPANPROF_LOG_LEVEL=none "$HOSTS/leaves" "$3"
	expect_rc "$1" 0
	TOLD=$(result "$1.err")
}

for flush in 0 2s; do
	ends "while.$flush" "$flush" "$WORK/while.$flush.err"
	[[ $TOLD == $'loading\nloaded\ndestructors' ]] || fail "while, $flush: ${TOLD//$'\n'/, }"
done
# Who is first is up to the scheduler.
for round in 1 2 3 4 5; do
	ends "before.$round" 0 late
	[[ $TOLD == destructors || $TOLD == $'loading\nloaded\ndestructors' ]] ||
		fail "before: ${TOLD//$'\n'/, }"
done

# OpenSSL registers its exit handler on our thread while the host is leaving main: what that handler
# frees is not used any more.
for flush in 0 2s; do
	run_under "midway.$flush" SPANPROF_SERVER_ADDRESS=http://127.0.0.1:9 SPANPROF_FLUSH_TIMEOUT="$flush" \
		SPANPROF_LOG_LEVEL=none "$HOSTS/midway"
	expect_rc "midway.$flush" 0
	[[ $(result "midway.$flush.out") == "it has ended" ]] || fail "midway: $(result "midway.$flush.out")"
done
run_under told SPANPROF_SERVER_ADDRESS=http://127.0.0.1:9 SPANPROF_FLUSH_TIMEOUT=0 \
	SPANPROF_LOG_LEVEL=info "$HOSTS/midway"
[[ $(result told.err) == *"(the program ends)"* ]] || fail "nothing is told of the end: $(result told.err)"
run_under silent SPANPROF_SERVER_ADDRESS=http://127.0.0.1:9 SPANPROF_FLUSH_TIMEOUT=0 "$HOSTS/midway"
expect_silent silent
