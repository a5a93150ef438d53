#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# --focus, --ignore and --hide, and the same choices on the page, leave the same sums as Go's pprof with its options
# of these names. Folds on the page keep its sums.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3 node go
export GOFLAGS=-mod=mod GOTOOLCHAIN=local GOPROXY=off PPROF_TMPDIR=$WORK
timeout 120 go tool pprof -h >/dev/null 2>&1 || [[ $? == 2 ]] || skip "go has no pprof tool here"

python3 test/e2e/report_filters.py profile "$WORK/random.pb.gz" 47
python3 test/e2e/report_filters.py compare "$TEST_BUILD/spanprof-report" "$WORK/random.pb.gz" "$WORK"
