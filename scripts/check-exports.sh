#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Fails unless an object exports exactly the global names of its version script. A further name
# would capture calls of the host; a missing name is a hook that never runs. A symbol that is marked
# for export (SP_EXPORT) but local by the script is such a hook, too.
# Usage: check-exports.sh [OBJECT MAP [PART.o...]]; without arguments the shipped object is checked.
set -euo pipefail
cd "$(dirname "$0")/.."

listed()
{
	sed -e 's|/\*.*\*/||' -e 's|#.*||' "$1" |
		awk '/^[[:space:]]*local:/ { exit } on { print } /^[[:space:]]*global:/ { on = 1 }' |
		tr -d ' \t;' | sed '/^$/d' | LC_ALL=C sort
}

exported()
{
	nm -D --defined-only --format=posix "$1" | awk '{ sub(/@.*/, "", $1); print $1 }' |
		LC_ALL=C sort -u
}

visible()
{
	readelf -sW "$@" | awk '$5 == "GLOBAL" && $6 == "DEFAULT" && $7 != "UND" {
		sub(/@.*/, "", $8); print $8 }' | LC_ALL=C sort -u
}

check()
{
	local object=$1 map=$2 difference forgotten

	shift 2
	[[ -e $object ]] || { echo "check-exports: no $object; run make" >&2; return 1; }
	difference=$(diff --label "$map" --label "$object" -U0 <(listed "$map") <(exported "$object") |
		sed -n '/^[-+][^-+]/p') || true
	if [[ -n $difference ]]; then
		echo "check-exports: $object (-: only in $map, +: only in the object)"
		echo "$difference"
	fi
	forgotten=
	if (($# > 0)); then
		forgotten=$(comm -13 <(listed "$map") <(visible "$@"))
	fi
	if [[ -n $forgotten ]]; then
		echo "check-exports: marked for export, but not in $map:"
		echo "$forgotten"
	fi
	[[ -z $difference$forgotten ]]
}

# parts DIR...: prints the objects of today's sources, without those of removed sources.
parts()
{
	find "$@" -name '*.c' | sed 's|^\(.*\)\.c$|build/release/\1.o|'
}

if (($# >= 2)); then
	check "$@"
else
	mapfile -t core < <(parts sampler preload)
	# The allocator's hooks are a separate object.
	mapfile -t core < <(printf '%s\n' "${core[@]}" | grep -v '^build/release/preload/alloc/')
	check build/libspanprof.so scripts/exports.map "${core[@]}"
	mapfile -t alloc < <(parts preload/alloc)
	check build/libspanprof-alloc.so scripts/exports-alloc.map "${alloc[@]}"
fi
