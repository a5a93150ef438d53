#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Fails unless an object exports exactly the global names of its version script, both ways: a name
# too many would capture calls of the host, a name too few is a hook that never runs.
# Usage: check-exports.sh [OBJECT MAP]; without arguments both shipped objects are checked.
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

check()
{
	local object=$1 map=$2 difference

	[[ -e $object ]] || { echo "check-exports: no $object; run make" >&2; return 1; }
	difference=$(diff --label "$map" --label "$object" -U0 <(listed "$map") <(exported "$object") |
		sed -n '/^[-+][^-+]/p') || true
	[[ -n $difference ]] || return 0
	echo "check-exports: $object (-: only in $map, +: only in the object)"
	echo "$difference"
	return 1
}

if (($# == 2)); then
	check "$1" "$2"
else
	check build/libspanprof.so scripts/exports.map
	check build/libspanprof-export.so scripts/export-exports.map
fi
