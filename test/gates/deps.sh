#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# check-deps.sh passes on the build and bites on a library too many and one too few.
set -euo pipefail
# shellcheck source=test/gates/seed.bash
source "$(dirname "$0")/seed.bash"

expect_pass scripts/check-deps.sh

echo 'libc.so.6  # the only one' >"$work/list"
seed_shared plain <<<'#include <stdlib.h>
void *take(void) { return malloc(1); }'
expect_pass scripts/check-deps.sh "$work/plain.so" "$work/list"

seed_shared libz -Wl,--no-as-needed -lz <<<'#include <stdlib.h>
void *take(void) { return malloc(1); }'
expect_fail "+libz.so.1" scripts/check-deps.sh "$work/libz.so" "$work/list"

echo 'libm.so.6' >>"$work/list"
expect_fail "-libm.so.6" scripts/check-deps.sh "$work/plain.so" "$work/list"
