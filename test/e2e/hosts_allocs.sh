#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The rows of hosts.table with the second object, while each program's allocations are sampled, and far more often than
# by default: output, status and profile have to be what they are without it. valgrind has an allocator of its own in
# place of the program's, so that its rows say nothing of ours.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

TEST_ALLOC=1 bash test/e2e/hosts.sh '!(valgrind.*)'
