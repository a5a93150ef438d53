#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Each row of hosts.table that wants a profile fails with an object that does nothing. A row that only compares a
# program with itself would pass.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need gcc
gcc -shared -o "$WORK/libspanprof.so" -x c /dev/null
TEST_OBJECTS=$WORK bash test/e2e/hosts.sh --without
