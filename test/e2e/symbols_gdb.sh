#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Functions at random addresses, inlined ones with their namespaces and classes, files and lines equal those of gdb;
# and the test notices a fault in these answers.
# Takes its time: it asks gdb for each address.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3 gdb nm readelf c++filt
cd "$ROOT"
for program in templates shapes templates-clang templates-split templates-types; do
	python3 test/symbols/names.py one "build/test/symbols/$program" "${SYMBOLS_ADDRESSES:-250}" || fail "$program"
done
python3 test/symbols/names.py faults build/test/symbols/shapes 80 || fail "a fault was not noticed"

# Inlined functions are in a part that libdw does not find (.dwp before elfutils 0.192, missing .dwo files). The line
# of an inlined function must not be shown as a line of the function around it.
# parted NAME PROGRAM: no lines, or exactly those of gdb.
parted()
{
	local functions lines

	nm "$2" | sed -n 's/^\([0-9a-f]*\) [tTwW] .*/\1/p' | python3 -c '
import sys
for line in sys.stdin:
    for more in (0, 4, 9, 17):
        print(f"{int(line, 16) + more:x}")' >"$WORK/$1.asked"
	build/test/symbols/lookup "$2" <"$WORK/$1.asked" >"$WORK/$1.answers"
	functions=$(awk -F '\t' 'NF == 4 && $1 != ""' "$WORK/$1.answers" | wc -l)
	lines=$(awk -F '\t' 'NF == 4 && ($2 ~ /templates.cc|c\+\+/ || $3 != 0)' "$WORK/$1.answers" | wc -l)
	((functions > 100)) || fail "$1: only $functions functions have names"
	((lines == 0)) || python3 test/symbols/names.py one "$2" 100 || fail "$1: $lines lines of parts that are not read"
}
for version in 4 5; do
	mkdir "$WORK/split$version"
	(cd "$WORK/split$version" &&
		${CXX:-g++} -std=gnu++17 -O2 "-gdwarf-$version" -gsplit-dwarf -o program "$ROOT/test/symbols/templates.cc")
	# The dwp of binutils 2.40 crashes on DWARF 5.
	if command -v dwp >/dev/null &&
		{ (cd "$WORK/split$version" && dwp -e program -o program.dwp && [[ -s program.dwp ]]); } >"$WORK/dwp.err" 2>&1; then
		rm "$WORK/split$version"/*.dwo
		parted "packed$version" "$WORK/split$version/program"
	else
		left_out "no dwp that packs DWARF $version"
	fi
	rm -f "$WORK/split$version"/*.dwo "$WORK/split$version/program.dwp"
	parted "gone$version" "$WORK/split$version/program"
done
