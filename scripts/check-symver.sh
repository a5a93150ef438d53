#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Fails if an object needs a symbol version newer than the oldest C library that we promise to run
# on: if the host's libc lacks the version, every process that preloads us dies. Weak references
# count too, because the loader checks versions and not symbols. A version other than GLIBC_ fails as
# well: the object may need no other library. The exporter has other libraries, so only its versions
# of the C library are checked.
# Usage: check-symver.sh [OBJECT [VERSION [any]]]; without arguments the shipped objects are
# checked. "any" accepts versions of other libraries.
set -euo pipefail
cd "$(dirname "$0")/.."

if (($# == 0)); then
	scripts/check-symver.sh build/libspanprof.so
	scripts/check-symver.sh build/libspanprof-alloc.so
	exec scripts/check-symver.sh build/spanprof-exporter 2.34 any
fi
readonly OBJECT=$1
readonly NEWEST=${2:-2.17}
readonly OTHERS=${3:-}

[[ -e $OBJECT ]] || { echo "check-symver: no $OBJECT; run make" >&2; exit 1; }

needed_versions()
{
	readelf -VW "$OBJECT" | awk '/Version needs section/ { on = 1 }
		on && match($0, /Name: [^ ]+/) { print substr($0, RSTART + 6, RLENGTH - 6) }' | sort -u
}

bad=0
while read -r version; do
	number=${version#GLIBC_}
	[[ $OTHERS != any || $version == GLIBC_* ]] || continue
	if [[ $version == GLIBC_[0-9]* &&
		$(printf '%s\n' "$number" "$NEWEST" | sort -V | tail -n 1) == "$NEWEST" ]]; then
		continue
	fi
	((bad)) || echo "check-symver: $OBJECT needs versions newer than GLIBC_$NEWEST:"
	bad=1
	nm -D --undefined-only "$OBJECT" | grep -F "@$version" | sed 's/^ */  /' ||
		echo "  $version, without a symbol"
done < <(needed_versions)
exit "$bad"
