#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every mutant of test/mutants/table still changes one place of the sources, and has a test; and the
# check notices rows that do not.
set -euo pipefail
# shellcheck source=test/gates/seed.bash
source "$(dirname "$0")/seed.bash"

expect_pass test/mutants/run.sh --check

# faulty FILE TESTS EXPRESSION FAULT
faulty()
{
	printf 'seed\t%s\t%s\twhat it breaks\t%s\n' "$1" "$2" "$3" >"$work/table"
	expect_fail "$4" test/mutants/run.sh --check "$work/table"
}

faulty sampler/region/ring.c unit/core/test_ring 's/no such text/x/' 'changes 0 places'
faulty sampler/region/ring.c unit/core/test_ring 's/tail/tale/' 'places of sampler/region/ring.c, not one'
faulty sampler/region/ring.c unit/core/test_ring 's/(/x/' 'Unmatched'
faulty sampler/none.c unit/core/test_ring 's/a/b/' 'there is no sampler/none.c'
faulty sampler/region/ring.c unit/core/test_none 's/r->taken \+= len \+ WORD/r->taken++/' 'there is no test unit/core/test_none'
faulty sampler/region/ring.c '' 's/r->taken \+= len \+ WORD/r->taken++/' 'five fields'
printf '# nothing\n' >"$work/table"
expect_fail 'no mutants' test/mutants/run.sh --check "$work/table"
printf 'one\tsampler/ring.c\tunit/core/test_ring\twhat\ts/r->taken \\+= len \\+ WORD/r->taken++/\n%.0s' 1 2 >"$work/table"
expect_fail 'two mutants of one name: one' test/mutants/run.sh --check "$work/table"

# What is drawn by chance applies as well, and the same seed draws the same.
python3 test/mutants/choose.py 200 7 >"$work/chosen"
python3 test/mutants/choose.py 200 7 | cmp - "$work/chosen"
expect_pass test/mutants/run.sh --check "$work/chosen"
[[ $(wc -l <"$work/chosen") == 200 ]]
