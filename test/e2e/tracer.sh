#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A debugger that is profiled itself waits for children of any kind, and finds only those that it made. Its profile
# ends with its first request as a tracer, which is reported; the traced child behaves as without us.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3 strace
readonly LAST='this program traces other processes, and would wait for the profiler: not profiling it any longer'
export SPANPROF_PROFILE=always SPANPROF_SAMPLE_RATE=250

run plain "$HOSTS/tracer"
for how in '' busy; do
	name=profiled.$how
	mkdir "$WORK/$name"
	run_under "$name" SPANPROF_OUTPUT_DIR="$WORK/$name" "$HOSTS/tracer" ${how:+"$how"}
	expect_rc "$name" 12
	[[ $(<"$WORK/$name.out") == "$(<"$WORK/plain.out")" ]] || fail "$name: $(<"$WORK/$name.out")"
	[[ $(grep -c "$LAST" "$WORK/$name.err") == 1 && $(wc -l <"$WORK/$name.err") == 1 ]] ||
		fail "$name: $(<"$WORK/$name.err")"
	report "$WORK/$name" "$WORK/$name.json"
	# The profile has the time before the program traced itself, and no time after it.
	expect "$WORK/$name.json" '95e6 < d["total"]["ns"] < 150e6'
done

# With a common debugger, which is profiled, and so is its program.
mkdir "$WORK/strace"
run_under strace SPANPROF_OUTPUT_DIR="$WORK/strace" strace -f -o /dev/null "$HOSTS/plain" 50 libspanprof.so
expect_rc strace 20
grep -q "$LAST" "$WORK/strace.err" || fail "strace: $(<"$WORK/strace.err")"
