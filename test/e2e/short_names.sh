#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The table of functions on a terminal has the same short names as the page: for a C++ library, and for names that
# somebody may have made up.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3 node nm
library=$(ldconfig -p | sed -nE 's/.*libstdc\+\+\.so\.6 .*=> (.*)/\1/p' | head -n 1)
[[ -n $library ]] || skip "there is no libstdc++"
nm -DC --defined-only "$library" | cut -d ' ' -f 3- | cut -d @ -f 1 >"$WORK/names"
python3 test/e2e/short_names.py compare "$TEST_BUILD/spanprof-report" "$WORK" <"$WORK/names"
