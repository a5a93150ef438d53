#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# check-circles.sh passes on the build, and fails on a circle of more files than it is told to allow.
set -euo pipefail
# shellcheck source=test/gates/seed.bash
source "$(dirname "$0")/seed.bash"

expect_pass scripts/check-circles.sh

# One file uses the next, and the last one the first.
mkdir "$work/four"
for use in a:b b:c c:d d:a; do
	seed_object "four/${use%:*}" <<<"int ${use#*:}(void); int ${use%:*}(void) { return ${use#*:}() + 1; }"
done
expect_pass scripts/check-circles.sh 4 "$work/four"
expect_fail "4 files use each other, more than 3" scripts/check-circles.sh 3 "$work/four"
expect_fail "four/d uses $work/four/a: a" scripts/check-circles.sh 3 "$work/four"

# A use from outside belongs to no circle, and a variable is used like a function.
seed_object four/outside <<<'int a(void); int outside(void) { return a(); }'
expect_fail "4 files use each other" scripts/check-circles.sh 3 "$work/four"
seed_object four/a <<<'extern int variable; int b(void); int a(void) { return b() + variable; }'
seed_object four/e <<<'int variable; int a(void); int e(void) { return a(); }'
expect_fail "5 files use each other" scripts/check-circles.sh 4 "$work/four"

# A file and its part for the handler are one.
mkdir "$work/handler"
seed_object handler/a <<<'int b(void); int a(void) { return b(); }'
seed_object handler/b <<<'int c(void); int b(void) { return c(); }'
seed_object handler/b_sig <<<'int a(void); int in_handler(void) { return a(); }'
seed_object handler/c <<<'int c(void) { return 1; }'
expect_fail "2 files use each other, more than 1" scripts/check-circles.sh 1 "$work/handler"

# A call of an exported name means the C library.
mkdir "$work/hook"
seed_object hook/hook <<<'int a(void); int __register_atfork(void) { return a(); }'
seed_object hook/a <<<'int __register_atfork(void); int a(void) { return __register_atfork(); }'
expect_pass scripts/check-circles.sh 1 "$work/hook"

mkdir "$work/empty"
expect_fail "no objects" scripts/check-circles.sh 3 "$work/empty"
