#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# README.md's configuration table is the one the code prints, and a changed row is noticed.
set -euo pipefail
cd "$(dirname "$0")/../.."

scripts/update-readme.sh --check

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
mkdir "$copy/scripts" "$copy/build"
cp scripts/update-readme.sh "$copy/scripts/"
cp build/print-config "$copy/build/"
# shellcheck disable=SC2016 # the backquotes are Markdown's
sed 's/| `SPANPROF_SAMPLE_RATE`/| `SPANPROF_SAMPLING_RATE`/' README.md >"$copy/README.md"
if cmp -s README.md "$copy/README.md"; then
	echo 'the table has no row to seed a fault into'
	exit 1
fi
if "$copy/scripts/update-readme.sh" --check 2>/dev/null; then
	echo 'a row that the code does not print went unnoticed'
	exit 1
fi
