#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Fails unless the libraries an object needs are exactly the listed ones: every library added to
# the preloaded object enters every process of a container.
# Usage: check-deps.sh [OBJECT LIST]; without arguments both shipped objects are checked.
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

if (($# == 2)); then
	check "$1" "$2"
else
	check build/libspanprof.so scripts/needed.allow
	check build/libspanprof-export.so scripts/export-needed.allow
fi
