#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# check-symver.sh passes on the build, and fails on a symbol version newer than promised.
set -euo pipefail
# shellcheck source=test/gates/seed.bash
source "$(dirname "$0")/seed.bash"

expect_pass scripts/check-symver.sh

seed_shared old <<<'#include <stdlib.h>
void *take(void) { return malloc(1); }'
expect_pass scripts/check-symver.sh "$work/old.so"

# reallocarray came with glibc 2.26.
seed_shared new -D_GNU_SOURCE <<<'#include <stdlib.h>
void *take(void) { return reallocarray(NULL, 2, 2); }'
expect_fail "reallocarray@GLIBC_2.26" scripts/check-symver.sh "$work/new.so"
expect_pass scripts/check-symver.sh "$work/new.so" 2.26

# The loader checks versions, so a weak reference to a new symbol is as fatal as a strong one.
seed_shared weak -D_GNU_SOURCE <<<'#include <stdlib.h>
#pragma weak reallocarray
void *plain(void) { return malloc(1); }
void *take(void) { return reallocarray ? reallocarray(NULL, 2, 2) : NULL; }'
expect_fail "reallocarray@GLIBC_2.26" scripts/check-symver.sh "$work/weak.so"

# 2.9 is older than 2.17 although it sorts behind it as text.
seed_shared ninth <<<'#include <stdio.h>
#include <sys/eventfd.h>
int make(void) { return eventfd(0, 0) + pipe2((int[2]){ 0 }, 0); }' -D_GNU_SOURCE -include unistd.h
expect_pass scripts/check-symver.sh "$work/ninth.so"

# The exporter's other libraries have their own versions, which are not the C library's.
seed_shared curl <<<'int other(void) { return 0; }' -Wl,-soname,libother.so \
	-Wl,--version-script=<(echo 'OTHER_1.0 { global: other; local: *; };')
seed_shared user -I"$work" -L"$work" -l:curl.so <<<'int other(void); int take(void) { return other(); }'
expect_fail "other@OTHER_1.0" scripts/check-symver.sh "$work/user.so" 2.34
expect_pass scripts/check-symver.sh "$work/user.so" 2.34 any
expect_fail "reallocarray@GLIBC_2.26" scripts/check-symver.sh "$work/new.so" 2.17 any
