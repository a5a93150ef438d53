#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs the rows of hosts.table with the second object, while each program's allocations are sampled far more often
# than by default: output, status and profile have to be the same as without it. valgrind replaces the program's
# allocator, so its rows say nothing of ours. On a busy machine some samples may find no room, which is reported.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

HOSTS_TOLD=${HOSTS_TOLD:+$HOSTS_TOLD|}'found no room in the ring buffer|for whose name the ring buffer had no room'
export HOSTS_TOLD
TEST_ALLOC=1 bash test/e2e/hosts.sh '!(valgrind.*)'
