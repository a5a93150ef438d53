#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The front page is short, and this and the other pages agree with the code: tables equal those that the code prints,
# links lead somewhere, and named files, variables, options and targets exist. Each of these checks notices a fault.
set -euo pipefail
cd "$(dirname "$0")/../.."

scripts/update-readme.sh --check
python3 test/gates/pages.py

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
mkdir "$copy/build"
cp build/print-config "$copy/build/"
ln -s "$PWD"/build/spanprof-* "$copy/build/"

# seed FILE EXPRESSION CHECK...: changes FILE in a copy of the tree; the check must fail.
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
seed README.md 's/#results/#no-results/' python3 test/gates/pages.py
seed README.md '$s/$/\n`sampler\/no_such.c`/' python3 test/gates/pages.py
seed README.md '$s/$/\n`SPANPROF_NO_SUCH`/' python3 test/gates/pages.py
seed README.md '$s/$/\n`spanprof-report --no-such x`/' python3 test/gates/pages.py
seed README.md '$s/$/\n`make no-such`/' python3 test/gates/pages.py
seed .github/workflows/check.yml 's/make -j/make no-such -j/' python3 test/gates/pages.py
seed .github/workflows/check.yml 's/checkout@[0-9a-f]* # /checkout@/' python3 test/gates/pages.py
seed .github/workflows/release.yml 's/checkout@11bd71/checkout@11bd7/' python3 test/gates/pages.py
seed .github/workflows/check.yml '0,/persist-credentials: false/s//fetch-depth: 1/' python3 test/gates/pages.py
seed .github/workflows/check.yml 's/image: debian:12@sha256:[0-9a-f]*/image: debian:12/' python3 test/gates/pages.py
seed .github/workflows/release.yml 's/image: debian:12@sha256:81/image: debian:12@sha256:/' python3 test/gates/pages.py
seed .github/workflows/release.yml 's/^permissions: {}/permissions: write-all/' python3 test/gates/pages.py
seed .github/workflows/release.yml 's/actions: read/contents: write/' python3 test/gates/pages.py
seed scripts/man/spanprof.7 '$s/$/\n.B SPANPROF_NO_SUCH/' python3 test/gates/pages.py
seed scripts/man/spanprof.7 '$s/$/\n.RB ( sort ). A word/' python3 test/gates/pages.py
seed README.md '$s/$/ One more word, and another, and a third: ten./; p; p; p; p; p; p; p; p; p' python3 test/gates/pages.py
