#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The object is linked with flags that packagers give. Link-time optimization, which the packages of Ubuntu
# and Fedora are built with, does not see symbols that assembler defines outside of functions.
set -euo pipefail
# shellcheck source=test/gates/seed.bash
source "$(dirname "$0")/seed.bash"

expect_pass env -u MAKEFLAGS -u MAKELEVEL -u DEV -u CI make B="$work/build" \
	CFLAGS='-O2 -flto=auto -ffat-lto-objects' "$work/build/libspanprof.so"
expect_pass scripts/check-exports.sh "$work/build/libspanprof.so" scripts/exports.map
