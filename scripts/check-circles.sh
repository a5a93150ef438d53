#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Fails if more than MOST source files use each other in a circle, as the linker sees it: a file uses
# another one if it refers to a function or a variable that the other one defines. NAME.c and
# NAME_sig.c count as one file. A name that the preloaded object exports does not count: a file of
# ours that calls it means the function of the C library or of an SDK.
# Usage: check-circles.sh [MOST [FOLDER...]]; FOLDER has objects. Default: 3, and the objects of all
# sources in build/release.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly MOST=${1:-3}

# Reads "nm -A -P". Files that reach each other are a circle.
# shellcheck disable=SC2016 # awk expands it
readonly CIRCLES='
function file_of(object) { sub(/:$/, "", object); sub(/\.o$/, "", object); sub(/_sig$/, "", object); return object }
BEGIN { while ((getline name < exported) > 0) gsub(/[ \t;]/, "", name) && is_exported[name] = 1 }
{ file = file_of($1); files[file] = 1 }
is_exported[$2] { next }
$3 ~ /^[Uwv]$/ { users[++n] = file; names[n] = $2; next }
{ home[$2] = file }
END {
	for (i = 1; i <= n; i++)
		if (names[i] in home && home[names[i]] != users[i]) {
			reaches[users[i], home[names[i]]] = 1
			uses[users[i], home[names[i]]] = uses[users[i], home[names[i]]] " " names[i]
		}
	for (via in files)
		for (from in files)
			if ((from, via) in reaches)
				for (to in files)
					if ((via, to) in reaches)
						reaches[from, to] = 1
	for (file in files) {
		if (file in seen || !((file, file) in reaches))
			continue
		size = 0
		for (other in files)
			if ((file, other) in reaches && (other, file) in reaches) {
				seen[other] = 1
				circle[++size] = other
			}
		if (size <= most)
			continue
		print "check-circles: " size " files use each other, more than " most ":"
		for (i = 1; i <= size; i++)
			for (j = 1; j <= size; j++)
				if ((circle[i], circle[j]) in uses)
					print "  " circle[i] " uses " circle[j] ":" uses[circle[i], circle[j]]
		bad = 1
	}
	exit bad
}'

# check OBJECT...
check()
{
	nm -A -P -g "$@" | awk -v most="$MOST" -v exported=scripts/exports.map "$CIRCLES" || bad=1
}

# Prints the objects of the sources in these folders; a build may also have objects of removed sources.
objects_of()
{
	find "$@" -name '*.c' | sed 's|\(.*\)c$|build/release/\1o|' | LC_ALL=C sort
}

bad=0
if (($# > 1)); then
	mapfile -t objects < <(find "${@:2}" -name '*.o' | LC_ALL=C sort)
	((${#objects[@]} > 0)) || { echo "check-circles: no objects in ${*:2}" >&2; exit 1; }
	check "${objects[@]}"
else
	mapfile -t objects < <(objects_of preload sampler)
	check "${objects[@]}"
	mapfile -t objects < <(objects_of export)
	check "${objects[@]}"
fi
exit "$bad"
