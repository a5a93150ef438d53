#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016
# Programs that a profiled host starts, by vfork, fork, posix_spawn, system and popen, run and end as
# ever, and the host's profile is not disturbed.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3
export SPANPROF_SAMPLE_RATE=250
mkdir "$WORK/profiles"
run plain "$HOSTS/spawn"
expect_rc plain 18
run_under under SPANPROF_OUTPUT_DIR="$WORK/profiles" "$HOSTS/spawn"
expect_same plain under out err rc
report "$WORK/profiles" "$WORK/report.json"
expect "$WORK/report.json" '[n["span_name"] for n in d["span_names"] if n["span_name"]] == ["spawn"]'
# 100 ms before, 30 after each of the six children that the host waited for, 100 at the end.
expect "$WORK/report.json" 'd["labelled"]["ns"] > 320e6'

# Over and over: a fork may come at any moment of our own work.
for round in $(seq 10); do
	run_under again SPANPROF_OUTPUT_DIR="$WORK/profiles" SPANPROF_UPLOAD_INTERVAL=200ms \
		SPANPROF_PROFILE=always bash -c \
		'for i in 1 2 3 4 5 6 7 8; do (echo $i) | cat; done | xargs -n 1 echo | sort'
	[[ $(result again.out) == $'1\n2\n3\n4\n5\n6\n7\n8' ]] || fail "round $round: other output"
	[[ ! -s $WORK/again.err ]] || fail "round $round: $(result again.err)"
done
