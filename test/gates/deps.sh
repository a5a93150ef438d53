#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# check-deps.sh passes on the build, and fails on a library too many, on one too few, and on memory that the loader
# would leave writable.
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

# Objects with one fault each.
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

# empty FAULT SOURCE [OPTION]...: an object for 32-bit programs with a fault
empty()
{
	as --32 -o "$work/empty.o" <<<"$2"
	ld -m elf_i386 -shared -z noexecstack -o "$work/empty.so" "$work/empty.o" "${@:3}"
	case $1 in
	'') expect_pass scripts/check-deps.sh --empty "$work/empty.so" ;;
	*) expect_fail "$1" scripts/check-deps.sh --empty "$work/empty.so" ;;
	esac
}
if [[ $(ld -V) == *elf_i386* && $(as --version) == *x86_64* ]]; then
	empty '' ''
	cp "$work/empty.so" "$work/needed.so"
	empty 'needs a library' '' --no-as-needed "$work/needed.so"
	empty 'that the loader runs' 'nop' -z noexecstack -init=here --defsym=here=0x100
	empty 'has symbols' '.globl here; .data; here: .long 1'
	empty 'has code' 'ret'
	empty 'stack that is code' '' -z execstack
	expect_fail 'not of 32 bits' scripts/check-deps.sh --empty "$work/plain.so"
else
	echo 'no objects of 32 bits can be made here; their check is left out'
fi
