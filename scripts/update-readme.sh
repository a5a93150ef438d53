#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Puts what the code prints into README.md: the configuration table, and with --demo the end of a
# demo run, which it makes. With --check it changes nothing and fails if the table is out of date.
# --matrix and --check-matrix do the same for the conformance matrix, as "make matrix" left it, and
# --latest for the results of "make sdk-latest", --bench for the answers that "make bench" left.
set -euo pipefail
cd "$(dirname "$0")/.."

# replace MARKER FILE: README.md with FILE between the markers, on stdout
replace()
{
	awk -v marker="$1" -v file="$2" -f scripts/between.awk README.md
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# check MARKER SOURCE
check()
{
	replace "$1" "$work/$1" | diff -u README.md - >"$work/diff" || {
		echo "update-readme: README.md differs from what $2 prints:" >&2
		cat "$work/diff" >&2
		exit 1
	}
}

case ${1-} in
--bench)
	replace bench build/test/bench/answers.md >"$work/README.md"
	cp "$work/README.md" README.md
	exit 0
	;;
--latest)
	latest=build/test/sdk-latest
	python3 test/conformance/matrix.py ways "$latest/latest.json" test/sdk-latest/latest.conf \
		"$(cat "$latest/version")" >"$work/sdk-latest"
	replace sdk-latest "$work/sdk-latest" >"$work/README.md"
	cp "$work/README.md" README.md
	exit 0
	;;
--matrix | --check-matrix)
	python3 test/conformance/matrix.py readme build/test/conformance/matrix.json \
		>"$work/matrix"
	if [[ $1 == --check-matrix ]]; then
		check matrix test/conformance/matrix.py
		exit 0
	fi
	replace matrix "$work/matrix" >"$work/README.md"
	cp "$work/README.md" README.md
	exit 0
	;;
esac

build/print-config >"$work/config"
case ${1-} in
--check)
	check config build/print-config
	exit 0
	;;
--demo)
	{
		echo '```text'
		test/rideshare/demo.sh 2>/dev/null | sed -n '/^span_name/,$p'
		echo '```'
	} >"$work/demo"
	replace demo "$work/demo" >"$work/README.md"
	cp "$work/README.md" README.md
	;;
esac
replace config "$work/config" >"$work/README.md"
cp "$work/README.md" README.md
