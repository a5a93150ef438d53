#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Mutants: each mistake is made where it fits and nowhere else, the draw is the same each time, and the line of each
# row in reasons exists.
set -euo pipefail
# shellcheck source=test/gates/seed.bash
source "$(dirname "$0")/seed.bash"

expect_pass python3 test/mutants/mutants.py --check

mkdir -p "$work/sampler"
cat >"$work/sampler/seed.c" <<'END_OF_SOURCE'
/* if (a > 1) return false; */
static const int table[] = {16, 32};
static int f(int a, const int *b)
{
	int n = 4;

	if (a > 1 && b != NULL)
		n = a + 1;
	g(a);
	free(b);
	sp_log("a > 1, 64");
	for (int i = 0; i < n; i++)
		n -= 64;
	if (h(a))
		return -EINVAL;
	return 0;
}
END_OF_SOURCE
cat >"$work/wanted" <<'END_OF_MUTANTS'
7: a clause is dropped: `a > 1` is `(1 || (a > 1))`
7: > is >=: `>` is `>=`
7: a clause is dropped: `b != NULL` is `(1 || (b != NULL))`
7: != is ==: `!=` is `==`
8: a store is left out: `n = a + 1` is `(void)0`
8: + 1 is left out: `+ 1` is ``
9: a call is left out: `g(a)` is `(void)0`
12: < is <=: `<` is `<=`
13: a store is left out: `n -= 64` is `(void)0`
13: 64 is halved: `64` is `32`
14: negated: `h(a)` is `!(h(a))`
15: an error is returned as 0: `return -EINVAL` is `return 0`
16: 0 is returned as 1: `return 0` is `return 1`
END_OF_MUTANTS
python3 - "$work/sampler/seed.c" >"$work/made" <<'END_OF_PROGRAM'
import sys
sys.path.insert(0, "test/mutants")
import mutants
source = mutants.Source(sys.argv[1])
for start, end, becomes, words in source.mistakes():
    print(f"{source.line_of(start)}: {words}: `{source.text[start:end]}` is `{becomes}`")
END_OF_PROGRAM
diff "$work/wanted" "$work/made"

# A row whose line is gone, and a row without a reason.
mkdir -p "$work/test/mutants"
cp test/mutants/mutants.py "$work/test/mutants"
printf 'sampler/seed.c\tg(a);\ta call is left out\tit does nothing\n' >"$work/test/mutants/reasons"
expect_pass python3 "$work/test/mutants/mutants.py" --check
printf 'sampler/seed.c\tg(b);\ta call is left out\tit does nothing\n' >"$work/test/mutants/reasons"
expect_fail 'has no such line any more: g(b);' python3 "$work/test/mutants/mutants.py" --check
printf 'sampler/seed.c\tg(a);\ta call is left out\n' >"$work/test/mutants/reasons"
expect_fail 'not of the form' python3 "$work/test/mutants/mutants.py" --check

# A rewritten line counts as changed; lines that were only moved, to another file or to another indentation, do not.
cd "$work"
git init -q . && git add sampler && git -c user.name=t -c user.email=t@t commit -qm base
{
	printf 'void k(void)\n{\n\twritten(1);\n}\n\n'
	sed -n '3,/n -= 64/s/^/\t/p' sampler/seed.c
} >sampler/other.c
sed -i '3,/n -= 64/d' sampler/seed.c
git add sampler
python3 - >made <<'END_OF_PROGRAM'
import sys
sys.path.insert(0, "test/mutants")
import mutants
lines = mutants.changed_lines("HEAD")
print(sorted(lines["sampler/other.c"]), sorted(lines.get("sampler/seed.c", [])))
END_OF_PROGRAM
echo '[1, 2, 3, 4] []' | diff - made
