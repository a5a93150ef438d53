#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The objects build with flags that packagers use, and with other C libraries. With link-time optimization, which
# Ubuntu's and Fedora's packages use, the compiler does not see symbols that assembler defines outside of functions.
set -euo pipefail
# shellcheck source=test/gates/seed.bash
source "$(dirname "$0")/seed.bash"

expect_pass env -u MAKEFLAGS -u MAKELEVEL -u DEV -u CI make B="$work/build" \
	CFLAGS='-O2 -flto=auto -ffat-lto-objects' "$work/build/libspanprof.so"
expect_pass scripts/check-exports.sh "$work/build/libspanprof.so" scripts/exports.map

# A C library that declares C23's functions, as glibc 2.43 does, does not contradict the allocator's.
echo 'void free_sized(void *, __SIZE_TYPE__); void free_aligned_sized(void *, __SIZE_TYPE__, __SIZE_TYPE__);' \
	>"$work/c23.h"
expect_pass env -u MAKEFLAGS -u MAKELEVEL -u DEV -u CI make B="$work/build" \
	CFLAGS="-O2 -include $work/c23.h" "$work/build/libspanprof-alloc.so"
