#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The front page is short, and what it and the other pages say of the code is so: the tables are those
# that the code prints, links lead somewhere, and files, variables, options and targets that are named exist.
# Each of these checks notices a fault.
set -euo pipefail
cd "$(dirname "$0")/../.."

scripts/update-readme.sh --check
python3 test/gates/pages.py

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
mkdir "$copy/build"
cp build/print-config "$copy/build/"
ln -s "$PWD"/build/spanprof-* "$copy/build/"

# seed FILE EXPRESSION CHECK...: in a copy of the tree whose FILE is changed, the check has to fail.
seed()
{
	local file=$1 expression=$2

	shift 2
	git ls-files -z --cached --others --exclude-standard -- ':!build' | tar --null --ignore-failed-read -cf - -T - |
		tar -C "$copy" -xf -
	sed -i "$expression" "$copy/$file"
	if cmp -s "$file" "$copy/$file"; then
		echo "nothing to seed a fault into: $file, $expression"
		exit 1
	fi
	if (cd "$copy" && "$@" >/dev/null 2>&1); then
		echo "unnoticed: $file, $expression"
		exit 1
	fi
}

seed sampler/config/README.md 's/| `SPANPROF_SAMPLE_RATE`/| `SPANPROF_SAMPLING_RATE`/' scripts/update-readme.sh --check
seed README.md 's/^| memory of each sampled thread | /&1/' scripts/update-readme.sh --check
seed README.md '$s/$/\n[x](scripts\/no-such-page.md)/' python3 test/gates/pages.py
seed README.md 's/#what-it-cannot-do/#what-it-can-do/' python3 test/gates/pages.py
seed README.md '$s/$/\n`sampler\/no_such.c`/' python3 test/gates/pages.py
seed README.md '$s/$/\n`SPANPROF_NO_SUCH`/' python3 test/gates/pages.py
seed README.md '$s/$/\n`spanprof-report --no-such x`/' python3 test/gates/pages.py
seed README.md '$s/$/\n`make no-such`/' python3 test/gates/pages.py
seed .github/workflows/check.yml 's/make lint/make no-such/' python3 test/gates/pages.py
seed scripts/man/spanprof.7 '$s/$/\n.B SPANPROF_NO_SUCH/' python3 test/gates/pages.py
seed scripts/man/spanprof.7 '$s/$/\n.RB ( sort ). A word/' python3 test/gates/pages.py
awk 'BEGIN { for (i = 0; i < 100; i++) print "" }' >"$copy/lines"
seed README.md "r $copy/lines" python3 test/gates/pages.py
