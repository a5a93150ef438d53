#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Each sentence of SECURITY in spanprof(7) has a test (security.py). A sentence without one, with another sentence's,
# or with a test that is gone is noticed.
set -euo pipefail
# shellcheck source=test/gates/seed.bash
source "$(dirname "$0")/seed.bash"

readonly CHECK=$PWD/test/gates/security.py

# checked TREE
checked()
{
	(cd "$1" && python3 "$CHECK")
}

# seeded FILE EXPRESSION WORDS: with that change the check prints these words.
seeded()
{
	rm -rf "$work/tree"
	mkdir "$work/tree"
	cp -r --parents scripts/man scripts/check-sigsafe.sh test "$work/tree"
	sed -i "$2" "$work/tree/$1"
	! cmp -s "$1" "$work/tree/$1" || { echo "nothing to seed a fault into: $1, $2" && exit 1; }
	expect_fail "$3" checked "$work/tree"
}

expect_pass checked .
seeded scripts/man/spanprof.7 's/^The signal handler waits for no lock/The signal handler waits for no lock or pipe/' 'has no test: The signal handler'
seeded scripts/man/spanprof.7 's/^it\. Except for messages/it. It sells nothing. Except for messages/' 'has no test: It sells nothing.'
seeded scripts/man/spanprof.7 's/^The signal handler waits for no lock and uses no heap\.$//' 'is not in the page: The signal handler'
seeded test/gates/security.table 's|^\ttest/e2e/keeper.sh.*pidfd.*||' 'has no test: A seccomp filter allows the keeper'
seeded test/gates/security.table 's|test/e2e/keeper.sh|test/e2e/no-keeper.sh|' 'test/e2e/no-keeper.sh is not there'
seeded test/unit/exporter/test_confine.c 's/executes_no_program/executes_some/' "does not have 'executes_no_program'"
seeded test/gates/security.table 's|^\ttest/e2e/setuid.sh.*|\tadvice|' 'more than advice has no test'
