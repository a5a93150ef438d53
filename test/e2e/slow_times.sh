#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The time line of a slow request, from the program to the page: three phases of 50 ms are found where the program's own
# clocks saw them, and the samples with times are, stack by stack, those of the profiles.
# Runs alone: it judges when phases of a program began and ended.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3
readonly TIMES=$ROOT/test/e2e/slow_times.py REPORT=$TEST_BUILD/spanprof-report

# times NAME VARIABLE...: the program, with its profiles in the folder NAME and the times of its phases in NAME.truth
times()
{
	mkdir "$WORK/$1"
	run_under "$1" SPANPROF_OUTPUT_DIR="$WORK/$1" OTEL_SERVICE_NAME=shop "${@:2}" "$HOSTS/phases" "$WORK/$1.truth"
	expect_rc "$1" 0
	expect_silent "$1"
}

times waits SPANPROF_OFF_CPU=true SPANPROF_SPAN_TIMES=true SPANPROF_SLOW=100ms SPANPROF_UPLOAD_INTERVAL=1s \
	SPANPROF_STATUS_FILE="$WORK/waits.json"
# Intervals end within requests, too.
python3 "$TIMES" sums "$WORK/waits"
expect "$WORK/waits.json" 'd["loss"]["slow_roots_without_all_times"] == 0'
[[ -z $(find "$WORK/waits" -name '*-slow.pprof.gz' ! -perm 600) ]] || fail "a file that others may read"
run page "$REPORT" --slowest --page "$WORK/page.html" "$WORK/waits"
expect_rc page 0
(($(grep -c '^[123]\. ' "$WORK/page.out") == 3)) || fail "no three sentences: $(<"$WORK/page.out")"
python3 "$TIMES" phases "$WORK/waits.truth" "$WORK/page.html"
python3 "$TIMES" lines "$WORK/page.html"
# Whoever reads profiles does not read their samples twice.
"$REPORT" --json "$WORK/waits" >"$WORK/with.json"
mkdir "$WORK/profiles"
cp -p "$WORK"/waits/*.pb.gz "$WORK/profiles"
"$REPORT" --json "$WORK/profiles" >"$WORK/without.json"
cmp "$WORK/with.json" "$WORK/without.json" || fail "files with times disturb the report"

# The folder's bounds are theirs as well.
times few SPANPROF_SLOW=100ms SPANPROF_UPLOAD_INTERVAL=200ms SPANPROF_OUTPUT_MAX_FILES=3
(($(find "$WORK/few" -type f | wc -l) <= 3)) || fail "more files than allowed: $(ls "$WORK/few")"

times off SPANPROF_OFF_CPU=true SPANPROF_SLOW=off
[[ -z $(find "$WORK/off" -name '*-slow*') ]] || fail "times unasked"
