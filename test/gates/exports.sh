#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# check-exports.sh passes on the build, and fails on a name too many and on a name too few.
set -euo pipefail
# shellcheck source=test/gates/seed.bash
source "$(dirname "$0")/seed.bash"

expect_pass scripts/check-exports.sh

cat >"$work/map" <<'M'
{
global:
	one;
	two;
local:
	*;
};
M
seed_shared both <<<'int one(void) { return 1; } int two(void) { return 2; }'
expect_pass scripts/check-exports.sh "$work/both.so" "$work/map"

seed_shared few -Wl,--version-script="$work/map" <<<'int one(void) { return 1; }'
expect_fail "-two" scripts/check-exports.sh "$work/few.so" "$work/map"

seed_shared many <<<'int one(void) { return 1; } int two(void) { return 2; } int malloc_too;'
expect_fail "+malloc_too" scripts/check-exports.sh "$work/many.so" "$work/map"

# A file that exports a name which the map does not have.
seed_object hook <<<'__attribute__((visibility("default"))) int three(void) { return 3; }'
expect_fail three scripts/check-exports.sh "$work/both.so" "$work/map" "$work/hook.o"
seed_object inner <<<'int three(void) { return 3; }'
expect_pass scripts/check-exports.sh "$work/both.so" "$work/map" "$work/inner.o"

expect_fail "no $work/absent.so" scripts/check-exports.sh "$work/absent.so" "$work/map"
