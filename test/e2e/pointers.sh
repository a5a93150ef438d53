#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Pointers of the program's that the kernel would refuse are refused as without us, with a profile going
# on and with none, and where we are switched off.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

export SPANPROF_OUTPUT_DIR=$WORK

run plain "$HOSTS/pointers"
expect_rc plain 6
run_under idle "$HOSTS/pointers"
run_under off SPANPROF_DISABLED=true "$HOSTS/pointers"
run_under active "$HOSTS/pointers" span
run_under always SPANPROF_PROFILE=always "$HOSTS/pointers"
for name in idle off active always; do
	expect_same plain "$name" out err rc
done
