#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Fails unless an object needs exactly the listed libraries: every library added to the preloaded
# object enters every process of a container. Fails also unless the loader binds all references of
# an object at once and then protects the tables (BIND_NOW, RELRO), at any address. The object for
# 32-bit programs has nothing to bind; it has to be empty.
# Usage: check-deps.sh [OBJECT [LIST]], or check-deps.sh --empty OBJECT; without arguments all
# shipped objects are checked.
set -euo pipefail
cd "$(dirname "$0")/.."

check()
{
	local object=$1 list=$2 difference

	[[ -e $object ]] || { echo "check-deps: no $object; run make" >&2; return 1; }
	difference=$(diff --label "$list" --label "$object" -U0 \
		<(sed -e 's/#.*//' -e 's/[[:space:]]*$//' -e '/^$/d' "$list" | LC_ALL=C sort) \
		<(readelf -dW "$object" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | LC_ALL=C sort) |
		sed -n '/^[-+][^-+]/p') || true
	[[ -n $difference ]] || return 0
	echo "check-deps: $object (-: listed in $list but not needed, +: needed but not listed)"
	echo "$difference"
	return 1
}

check_binding()
{
	local object=$1 dynamic segments missing=()

	[[ -e $object ]] || { echo "check-deps: no $object; run make" >&2; return 1; }
	dynamic=$(readelf -dW "$object")
	segments=$(readelf -lW "$object")
	grep -qE '\((FLAGS|FLAGS_1)\).* (BIND_NOW|NOW)\b|\(BIND_NOW\)' <<<"$dynamic" || missing+=(BIND_NOW)
	grep -q GNU_RELRO <<<"$segments" || missing+=(RELRO)
	readelf -hW "$object" | grep -q 'Type: *DYN ' || missing+=(PIE)
	! grep -q '(TEXTREL)' <<<"$dynamic" || missing+=('code without relocations')
	! grep -q 'GNU_STACK.* RWE' <<<"$segments" || missing+=('a stack that is no code')
	((${#missing[@]} > 0)) || return 0
	echo "check-deps: $object is without:"
	printf '  %s\n' "${missing[@]}"
	return 1
}

check_empty()
{
	local object=$1 dynamic segments faults=()

	[[ -e $object ]] || { echo "check-deps: no $object; run make" >&2; return 1; }
	dynamic=$(readelf -dW --dyn-syms "$object")
	segments=$(readelf -lW "$object")
	readelf -hW "$object" | grep -q 'Class: *ELF32' || faults+=('not of 32 bits')
	! grep -qE '\((NEEDED|(PREINIT_|INIT_|FINI_)?ARRAY|INIT|FINI|REL|RELA|TEXTREL)\)' <<<"$dynamic" ||
		faults+=('needs a library, or has code that the loader runs')
	! grep -qE '(GLOBAL|WEAK|UNIQUE) ' <<<"$dynamic" || faults+=('has symbols')
	! grep -qE '^ +[A-Z_]+ .* (R|RW| ) ?E +0x' <<<"$segments" || faults+=('has code, or a stack that is code')
	# Without this entry every stack of the program would be executable.
	grep -q GNU_STACK <<<"$segments" || faults+=('has no entry for the stack')
	((${#faults[@]} > 0)) || return 0
	echo "check-deps: $object should be empty, but:"
	printf '  %s\n' "${faults[@]}"
	return 1
}

if [[ ${1-} == --empty ]]; then
	check_empty "$2"
elif (($# >= 1)); then
	check_binding "$1"
	[[ $# == 1 ]] || check "$1" "$2"
else
	check build/libspanprof.so scripts/needed.allow
	check build/libspanprof-alloc.so scripts/needed.allow
	check build/spanprof-exporter scripts/exporter-needed.allow
	for object in build/libspanprof.so build/libspanprof-alloc.so build/spanprof-{exporter,report,run} build/launcher; do
		check_binding "$object"
	done
	# Some linkers cannot make this object.
	[[ ! -e build/libspanprof-stub32.so ]] || check_empty build/libspanprof-stub32.so
fi
