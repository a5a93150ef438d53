#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# With a folder the slowest local roots of each name are listed there one by one, in OpenTelemetry's JSON: the same
# spans, with the same ids and as long, as the program's own SDK writes. SPANPROF_SLOW says which.
# Runs alone: it judges how long spans last.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3
readonly COMPARE=$ROOT/test/e2e/slow_roots.py

# slow NAME VARIABLE...: the host, with its profiles in the folder NAME and its spans in NAME.spans
slow()
{
	local name=$1

	mkdir "$WORK/$name"
	run_under "$name" SPANPROF_OUTPUT_DIR="$WORK/$name" OTELC_SPANS_JSON="$WORK/$name.spans" \
		OTEL_SERVICE_NAME=shop "${@:2}" "$HOSTS/slow"
	expect_rc "$name" 0
	expect_same alone "$name" out rc
}

# compare NAME HOW [ARGUMENT]
compare()
{
	python3 "$COMPARE" "${@:2}" "$WORK/$1.spans" "$WORK/$1"
}

run alone "$HOSTS/slow"

# By default, in one interval: of each name the slowest hundredth, at least one.
slow auto SPANPROF_UPLOAD_INTERVAL=10m SPANPROF_STATUS_FILE="$WORK/auto.json"
expect_silent auto
compare auto hundredth
[[ -z $(find "$WORK/auto" -name '*.jsonl' ! -perm 600) ]] || fail "a file that others may read"
expect "$WORK/auto.json" 'd["loss"]["dropped_ring_full_for_slow_roots"] == 0'
expect "$WORK/auto.json" 'd["loss"]["slow_roots_unwritten"] == 0'
# The report of profiles is what it is without these files.
build/spanprof-report --json "$WORK/auto" >"$WORK/with.json"
mkdir "$WORK/profiles"
cp -p "$WORK"/auto/*.pb.gz "$WORK/profiles"
build/spanprof-report --json "$WORK/profiles" >"$WORK/without.json"
cmp "$WORK/with.json" "$WORK/without.json" || fail "files of slow roots disturb the report"

# In many intervals the slowest of all are in one of the files.
slow often SPANPROF_UPLOAD_INTERVAL=200ms
expect_silent often
compare often slowest

# From a duration on, and for one name another one.
slow fixed SPANPROF_UPLOAD_INTERVAL=10m SPANPROF_SLOW=refund=40ms,25ms
expect_silent fixed
compare fixed from refund=40,25

# With times.
slow times SPANPROF_UPLOAD_INTERVAL=10m SPANPROF_SPAN_TIMES=true
expect_silent times
compare times times

slow off SPANPROF_SLOW=off
expect_silent off
[[ -z $(find "$WORK/off" -name '*.jsonl') ]] || fail "slow roots unasked"

# The folder's bounds are theirs as well.
slow few SPANPROF_UPLOAD_INTERVAL=200ms SPANPROF_OUTPUT_MAX_FILES=3
(($(find "$WORK/few" -type f | wc -l) <= 3)) || fail "more files than allowed: $(ls "$WORK/few")"

# A folder that is none: told, and the program ends as it would.
: >"$WORK/file"
run_under unwritable SPANPROF_OUTPUT_DIR="$WORK/file/folder" SPANPROF_STATUS_FILE="$WORK/unwritable.json" "$HOSTS/slow"
expect_rc unwritable 0
expect "$WORK/unwritable.json" 'd["loss"]["slow_roots_unwritten"] > 0'
