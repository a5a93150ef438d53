#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A host takes the signal that SPANPROF_SIGNAL names. It gets one message, goes on unprofiled, and loses none of the
# earlier samples: they are sent at the end, though no upload was due meanwhile.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3
export SPANPROF_SIGNAL=SIGURG SPANPROF_UPLOAD_INTERVAL=1h SPANPROF_SAMPLE_RATE=250 SPANPROF_FLUSH_TIMEOUT=30s

mkdir "$WORK/profiles"
run taken.plain "$HOSTS/taker" "$(kill -l URG)" 100
run_under taken SPANPROF_OUTPUT_DIR="$WORK/profiles" SPANPROF_STATUS_FILE="$WORK/status.json" \
	"$HOSTS/taker" "$(kill -l URG)" 30000
expect_same taken.plain taken out rc
(($(grep -c 'the program took signal' "$WORK/taken.err") == 1)) || fail "$(<"$WORK/taken.err")"

status=$WORK/status.json
expect "$status" 'd["state"] == "stopped" and d["loss"]["signal_taken_by_host"] == 1'
# Records about objects are drained as well.
expect "$status" '0 < d["samples"]["put"] <= d["samples"]["drained"]'
expect "$status" 'd["loss"]["samples_in_lost_batches"] == d["loss"]["batches_unsent_at_exit"] == 0'
report "$WORK/profiles" "$WORK/report.json"
# The first 50 ms were in a span; the unsampled part of them is the rest of its CPU clock.
expect "$WORK/report.json" 'd["total"]["samples"] > 0 and d["labelled"]["ns"] > 0'
expect "$WORK/report.json" 'd["total"]["ns"] >= 50e6'
