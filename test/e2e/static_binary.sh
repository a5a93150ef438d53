#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A statically linked program has no loader that would take us in: it runs as ever.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

mkdir "$WORK/profiles"
run plain "$HOSTS/static" 100 libspanprof
expect_rc plain 20
run_under under SPANPROF_PROFILE=always SPANPROF_OUTPUT_DIR="$WORK/profiles" \
	"$HOSTS/static" 100 libspanprof
expect_same plain under out err rc
grep -qx 'mapped 0' "$WORK/under.out" || fail "we are in a static program"
[[ -z $(ls "$WORK/profiles") ]] || fail "a profile of a static program"
# The same program, linked dynamically, would have been profiled.
run_under dynamic SPANPROF_PROFILE=always SPANPROF_OUTPUT_DIR="$WORK/profiles" \
	"$HOSTS/plain" 100 libspanprof
grep -qx 'mapped 1' "$WORK/dynamic.out" || fail "we are not in a dynamic program"
[[ -n $(profiles_in "$WORK/profiles") ]] || fail "no profile of a dynamic program"
