#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# check-sigsafe.sh passes on the build, and fails on calls that a signal handler may not make.
set -euo pipefail
# shellcheck source=test/gates/seed.bash
source "$(dirname "$0")/seed.bash"

expect_pass scripts/check-sigsafe.sh

echo 'memcpy  # copies, nothing else' >"$work/list"

seed_object good <<<'#include <string.h>
void copy(void *to, const void *from, unsigned long n) { memcpy(to, from, n); }'
expect_pass scripts/check-sigsafe.sh "$work/list" "$work/good.o"

seed_object heap <<<'#include <stdlib.h>
#include <string.h>
void *copy(const void *from, unsigned long n) { return memcpy(malloc(n), from, n); }'
expect_fail "malloc is called" scripts/check-sigsafe.sh "$work/list" "$work/heap.o"

seed_object lazy_tls <<<'#include <string.h>
__thread char data[8];
void copy(const void *from, unsigned long n) { memcpy(data, from, n); }'
expect_fail "__tls_get_addr" scripts/check-sigsafe.sh "$work/list" "$work/lazy_tls.o"

seed_object pointer -fno-jump-tables <<<'#include <string.h>
void (*hook)(void);
void copy(void *to, const void *from, unsigned long n) { memcpy(to, from, n); hook(); memcpy(to, from, n); }'
expect_fail "copy calls through a pointer" scripts/check-sigsafe.sh "$work/list" "$work/pointer.o"

# A tail call through a pointer is a jump.
seed_object tail -fno-jump-tables <<<'#include <string.h>
void (*hook)(void);
void copy(void *to, const void *from, unsigned long n) { memcpy(to, from, n); hook(); }'
expect_fail "copy calls through a pointer" scripts/check-sigsafe.sh "$work/list" "$work/tail.o"

cat >"$work/list_pointer" <<'L'
memcpy  # only copies
*copy   # a hook that only counts
L
expect_pass scripts/check-sigsafe.sh "$work/list_pointer" "$work/tail.o"
expect_fail "nothing uses *copy" scripts/check-sigsafe.sh "$work/list_pointer" "$work/good.o"

# Calls of a helper object are checked as well.
seed_object calls <<<'void helper(void); void enter(void) { helper(); helper(); }'
seed_object helper <<<'#include <stdio.h>
void helper(void) { puts("hello"); }'
echo '/helper.o  # a helper' >"$work/list_helper"
SPANPROF_OBJECT_ROOT=$work expect_fail "puts is called" \
	scripts/check-sigsafe.sh "$work/list_helper" "$work/calls.o"

echo 'memcpy' >"$work/list_bare"
expect_fail 'no "entry  # reason": memcpy' scripts/check-sigsafe.sh "$work/list_bare" "$work/good.o"
