#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# check-deps.sh passes on the build and bites on a library too many and one too few, and on what the
# loader would leave open to be written.
set -euo pipefail
# shellcheck source=test/gates/seed.bash
source "$(dirname "$0")/seed.bash"

expect_pass scripts/check-deps.sh

echo 'libc.so.6  # the only one' >"$work/list"
seed_shared plain -Wl,-z,now <<<'#include <stdlib.h>
void *take(void) { return malloc(1); }'
expect_pass scripts/check-deps.sh "$work/plain.so" "$work/list"

seed_shared libz -Wl,-z,now -Wl,--no-as-needed -lz <<<'#include <stdlib.h>
void *take(void) { return malloc(1); }'
expect_fail "+libz.so.1" scripts/check-deps.sh "$work/libz.so" "$work/list"

echo 'libm.so.6' >>"$work/list"
expect_fail "-libm.so.6" scripts/check-deps.sh "$work/plain.so" "$work/list"

# Each with one fault.
source='int puts(const char *); int main(void) { return puts("x"); }'
readonly GOOD=('-Wl,-z,now,-z,relro,-z,noexecstack')
program()
{
	gcc -x c -O2 -o "$work/program" "${@:2}" - <<<"$source"
	case $1 in
	'') expect_pass scripts/check-deps.sh "$work/program" ;;
	*) expect_fail "$1" scripts/check-deps.sh "$work/program" ;;
	esac
}
program '' -fPIE -pie "${GOOD[@]}"
program BIND_NOW -fPIE -pie "${GOOD[@]}" -Wl,-z,lazy
program RELRO -fPIE -pie "${GOOD[@]}" -Wl,-z,norelro
program PIE -fno-pie -no-pie "${GOOD[@]}"
program 'a stack' -fPIE -pie "${GOOD[@]}" -Wl,-z,execstack
seed_shared lazy -Wl,-z,lazy <<<"$source"
expect_fail BIND_NOW scripts/check-deps.sh "$work/lazy.so"
expect_fail "no $work/absent" scripts/check-deps.sh "$work/absent"
