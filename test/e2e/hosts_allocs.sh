#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The rows of hosts.table with the second object, while each program's allocations are sampled, and far more often than
# by default: output, status and profile have to be what they are without it. valgrind has an allocator of its own in
# place of the program's, so that its rows say nothing of ours. On a busy machine so many samples may find no room, which
# is told.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

HOSTS_TOLD=${HOSTS_TOLD:+$HOSTS_TOLD|}'found the ring buffer full|for whose name the ring buffer had no room'
export HOSTS_TOLD
TEST_ALLOC=1 bash test/e2e/hosts.sh '!(valgrind.*)'
