#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Names only: equal to those of nm, and in stripped programs one name for all addresses of a function.
# Takes its time: it reads many files.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3 nm readelf objcopy strip xz
readonly COUNT=${SYMBOLS_ADDRESSES:-1000}
readonly LOOKUP=$ROOT/build/test/symbols/lookup

compare()
{
	python3 test/symbols/compare.py "$@" || fail "compare $*"
}

# library PROGRAM NAME: the file of a library that the program uses.
library()
{
	ldd "$1" | awk -v name="$2" 'index($1, name) == 1 { print $3 }'
}

for object in "$(library "$LOOKUP" libc.so)" "$(library build/test/symbols/templates libstdc++.so)" \
	"$(type -P node || true)"; do
	if [[ -z $object ]]; then
		echo "node is not installed"
		continue
	fi
	# Without the debug packages of this machine.
	compare names "$(readlink -f "$object")" "$COUNT" --root /nonexistent
done

for program in git curl python3; do
	# The distribution's own program: a version manager's program in front of it is not stripped.
	path=$(PATH=/usr/bin:/bin type -P "$program" || true)
	if [[ -z $path ]]; then
		echo "$program is not installed"
		continue
	fi
	path=$(readlink -f "$path")
	compare fdes "$path" "$COUNT"
done

# MiniDebugInfo, as in Fedora's packages: no symbol table, but a packed one inside a section.
cp build/test/symbols/templates "$WORK/mini"
nm "$WORK/mini" | awk '$2 ~ /[tTW]/ { print $3 }' >"$WORK/keep"
objcopy -S --remove-section .gnu_debuglink --keep-symbols="$WORK/keep" "$WORK/mini" \
	"$WORK/mini.symbols"
xz -k "$WORK/mini.symbols"
strip --strip-all "$WORK/mini"
nm build/test/symbols/templates | awk '$3 == "main" { print $1 }' >"$WORK/main"
"$LOOKUP" --root /nonexistent "$WORK/mini" <"$WORK/main" | grep '^mini+0x' >/dev/null ||
	fail "a name for main without a symbol"
objcopy --add-section .gnu_debugdata="$WORK/mini.symbols.xz" "$WORK/mini"
"$LOOKUP" --root /nonexistent "$WORK/mini" <"$WORK/main" | grep '^main' >/dev/null ||
	fail "no name from .gnu_debugdata"
