#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Names, files, lines and inlined functions of random addresses equal those of binutils, wherever the debug
# information is: in the program, in a debug file found by build id or by link, packed, split, or shared by dwz.
# Takes its time: it reads many files.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3 addr2line readelf objcopy strip
readonly COUNT=${SYMBOLS_ADDRESSES:-1000}
readonly LOOKUP=$ROOT/build/test/symbols/lookup
readonly BUILT=$ROOT/build/test/symbols

compare()
{
	python3 test/symbols/compare.py "$@" || fail "compare $*"
}

# lines PROGRAM [OPTION]...: compares the lines of the program, or of the file after --debug.
lines()
{
	local program=$1

	shift
	compare lines "$program" "$COUNT" "$@"
}

# without_lines PROGRAM [OPTION]...: its debug information must not be found.
without_lines()
{
	local program=$1

	shift
	readelf -sW "$program.full" | awk '$4 == "FUNC" && $3 > 0 { print $2 }' | head -200 |
		"$LOOKUP" "$@" "$program" >"$WORK/none"
	[[ -s $WORK/none ]] || fail "no answers for $program"
	if grep -q $'\t/.*\t[1-9]' "$WORK/none"; then
		fail "lines for $program from a file that is not its own"
	fi
}

# strip_to PROGRAM DEBUG_FILE: strips the program; PROGRAM.full is the original.
strip_to()
{
	cp "$1" "$1.full"
	mkdir -p "$(dirname "$2")"
	objcopy --only-keep-debug "$1" "$2"
	strip --strip-all "$1"
}

link_to()
{
	objcopy --add-gnu-debuglink="$2" "$1"
}

build_id()
{
	readelf -n "$1" | awk '/Build ID:/ { print $3 }'
}

cd "$ROOT"
lines "$BUILT/templates"
if [[ -x build/test/rideshare/server ]]; then
	lines build/test/rideshare/server
else
	echo "demo server: not built"
fi

# Stripped, with the debug file beside it, found by build id.
cp "$BUILT/templates" "$WORK/by_id"
strip_to "$WORK/by_id" "$WORK/by_id.debug"
without_lines "$WORK/by_id" --root "$WORK/root"
id=$(build_id "$WORK/by_id")
mkdir -p "$WORK/root/.build-id/${id:0:2}"
cp "$WORK/by_id.debug" "$WORK/root/.build-id/${id:0:2}/${id:2}.debug"
lines "$WORK/by_id" --debug "$WORK/by_id.full" --root "$WORK/root"

# The same by link, in the three folders, with and without a build id.
for where in same/linked.debug dot/.debug/linked.debug "root$WORK/far/linked.debug"; do
	folder=${where%%/*}
	[[ $folder != root ]] || folder=far
	program=$WORK/$folder/linked
	for section in .note.gnu.build-id .comment; do
		mkdir -p "$WORK/$folder"
		objcopy --remove-section "$section" "$BUILT/templates" "$program"
		strip_to "$program" "$WORK/$where"
		link_to "$program" "$WORK/$where"
		lines "$program" --debug "$program.full" --root "$WORK/root"
	done
done
# Another file than the linked one: its checksum differs.
echo >>"$WORK/same/linked.debug"
without_lines "$WORK/same/linked" --root "$WORK/none"
# Another build under the right build id's name: the build id inside differs.
cp "$BUILT/templates-dwarf4" "$WORK/root/.build-id/${id:0:2}/${id:2}.debug"
without_lines "$WORK/by_id" --root "$WORK/root"

# Packed sections, older formats, no .debug_aranges (clang), and split units in separate files (addr2line cannot read
# those; the same program without splitting has the same code).
objcopy --compress-debug-sections "$BUILT/templates" "$WORK/packed"
lines "$WORK/packed"
lines "$BUILT/templates-dwarf4"
lines "$BUILT/templates-clang"
lines "$BUILT/templates-split" --debug "$BUILT/templates"
if command -v dwz >/dev/null; then
	cp "$BUILT/templates-dwarf4" "$WORK/one"
	cp "$BUILT/templates-clang" "$WORK/two"
	dwz -m "$WORK/shared" "$WORK/one" "$WORK/two"
	readelf -SW "$WORK/one" | grep gnu_debugaltlink >/dev/null || fail "dwz shared nothing"
	lines "$WORK/one" --debug "$BUILT/templates-dwarf4"
else
	left_out "dwz is not installed"
fi

if command -v rustc >/dev/null && rustc --version >/dev/null 2>&1; then
	rustc -g -C opt-level=2 -C symbol-mangling-version=v0 -o "$WORK/rust" "test/symbols/shop.rs"
	lines "$WORK/rust"
	"$LOOKUP" "$WORK/rust" < <(nm "$WORK/rust" | awk '$3 ~ /4shop5group/ { print $1; exit }') |
		grep 'shop::group::<alloc::string::String, shop::Item>$' >/dev/null ||
		fail "a Rust name is not readable"
else
	left_out "rustc is not installed"
fi
