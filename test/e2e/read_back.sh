#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The questions that test/pyroscope/real.sh asks a real server, asked of the strict double.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash
# shellcheck source=test/e2e/read_back.bash
source test/e2e/read_back.bash

# shellcheck disable=SC2119
double_start
TENANT=
read_back sent
# shellcheck disable=SC2119
expect_clean_double

# The assertions really check: one missing profile is noticed.
# shellcheck disable=SC2119
double_start --fault status=400
if (read_back refused 1) 2>"$WORK/refused.err"; then
	fail "a profile was refused, and nobody noticed"
fi
grep -q '^FAIL: sent [0-9]* ns, the server has [0-9]*$' "$WORK/refused.err" || fail "$(<"$WORK/refused.err")"
