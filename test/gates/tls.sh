#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# check-tls.sh passes on the build, and fails on too much TLS and on the access model that allocates.
set -euo pipefail
# shellcheck source=test/gates/seed.bash
source "$(dirname "$0")/seed.bash"

expect_pass scripts/check-tls.sh
expect_pass scripts/check-tls.sh build/libspanprof-alloc.so 48

seed_shared full -ftls-model=initial-exec <<<'__thread char data[256]; char *at(int i) { return &data[i]; }'
expect_pass scripts/check-tls.sh "$work/full.so"

seed_shared large -ftls-model=initial-exec <<<'__thread char data[257]; char *at(int i) { return &data[i]; }'
expect_fail "more than 256" scripts/check-tls.sh "$work/large.so"

seed_shared dynamic -ftls-model=global-dynamic <<<'__thread char data[8]; char *at(int i) { return &data[i]; }'
expect_fail "-ftls-model=initial-exec" scripts/check-tls.sh "$work/dynamic.so"
