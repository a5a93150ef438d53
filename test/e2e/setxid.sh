#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A worker that gives up its privileges after a fork: the C library asks every thread of the process
# by a signal of its own to do the same, and waits for all of them; and the exporter follows.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3
export SPANPROF_PROFILE=always SPANPROF_OUTPUT_DIR=$WORK
readonly WORKER='import os
def work(): sum(range(2000000))
def drop():
    os.setgid(os.getgid())
    os.setuid(os.getuid())
work(); drop()
if os.fork() == 0:
    work(); drop(); work()
    os._exit(7)
print(os.waitstatus_to_exitcode(os.wait()[1]))'

run_under worker python3 -S -c "$WORKER"
expect_rc worker 0
[[ $(result worker.out) == 7 ]] || fail "the worker ended with $(result worker.out)"
# python3 may be a script that starts it.
[[ $(profiles_in "$WORK" | grep -c service_python) == 2 ]] || fail "not both processes were profiled"

# The signal by which the C library does this is the one that we sample with: it reaches the C library in each
# thread, also while threads come and go, and the samples go on.
mkdir "$WORK/storm"
run_under storm SPANPROF_PROFILE=on-span SPANPROF_OUTPUT_DIR="$WORK/storm" SPANPROF_SAMPLE_RATE=1000 "$HOSTS/setxid"
expect_rc storm 12
[[ $(result storm.out) == changed ]] || fail "$(result storm.out)"
report "$WORK/storm" "$WORK/storm.json"
# Almost all of its time was in spans of three threads, and what no sample stands for is little of it.
expect "$WORK/storm.json" 'd["labelled"]["ns"] > 200e6 and d["residual"]["ns"] * 5 < d["total"]["ns"]'
