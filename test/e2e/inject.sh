#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# System calls and allocations fail, in the object and in the exporter, one in each run: no host dies, hangs, prints
# or returns anything else, and nothing of ours outlives it. make inject tries a thousand.
# Runs alone: it uses all processors, and checks what is left after a while.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3
[[ -z ${TEST_EMULATOR:-} ]] || skip "the filter would see the emulator's calls"

rc=0
TMPDIR=$WORK nice python3 test/inject/run.py "${SO%/*}" "${INJECT_POINTS:-50}" || rc=$?
((rc != 77)) || skip "no seccomp filter that asks another process (Linux 5.5)"
((rc == 0)) || fail "some hosts noticed"
