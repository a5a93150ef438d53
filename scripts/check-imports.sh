#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Fails unless every function that the preloaded object calls in its host is on the allow list, with
# a reason. The object has to run in any program without creating a thread, allocating, or keeping a
# descriptor open, and one line of code is enough to call a function that does.
#
# A line of the allow list is one entry, "#" and the reason. An entry is
#   name     a symbol that the object may import; * and ? stand for other characters
#   ~name    a symbol that it may look up by name (SP_FOR_EACH_NEXT in preload/elf/resolve.h). Exported
#            symbols are hooks, which hand on a call of the program, and need no entry.
# A line without a reason is an error, and so is an entry that is not needed any more. Some names
# are never allowed: syscall() among them, because our system calls are instructions.
# Usage: check-imports.sh [LIST OBJECT LOOKUPS EXPORTS]; defaults: scripts/imports.allow,
# build/libspanprof.so, preload/elf/resolve.h and scripts/exports.map. Then the object with the
# allocator's hooks is checked with its own list and exports.
set -euo pipefail
cd "$(dirname "$0")/.."

if (($# == 0)); then
	scripts/check-imports.sh scripts/imports-alloc.allow build/libspanprof-alloc.so /dev/null scripts/exports-alloc.map
fi
readonly LIST=${1:-scripts/imports.allow}
readonly OBJECT=${2:-build/libspanprof.so}
readonly LOOKUPS=${3:-preload/elf/resolve.h}
readonly EXPORTS=${4:-scripts/exports.map}
# No entry may allow these names, not even by a pattern that is too wide.
readonly NEVER='^~?(malloc|calloc|realloc|reallocarray|aligned_alloc|posix_memalign|memalign|valloc|strn?dup|'\
'asprintf|vasprintf|fopen|fdopen|opendir|popen|system|dlmopen|fork|vfork|posix_spawnp?)$|^pthread_create$|'\
'^~?pthread_(attr_(init|destroy|set[a-z]*)|detach|join|key|mutex|cond|rwlock)|^thrd_create$|^~?(mtx|cnd|tss)_|^syscall$'
bad=0

complain()
{
	echo "check-imports: $*"
	bad=1
}

[[ -e $OBJECT ]] || { echo "check-imports: no $OBJECT; run make" >&2; exit 1; }
entries=()
while read -r line; do
	[[ $line =~ ^[^#[:space:]]+[[:space:]]+\#[[:space:]]*[^[:space:]] ]] ||
		complain "$LIST: no \"entry  # reason\": $line"
	entries+=("${line%%[[:space:]]*}")
done < <(grep -v -e '^#' -e '^[[:space:]]*$' "$LIST")

imported()
{
	nm -D --undefined-only --format=posix "$OBJECT" | awk '{ sub(/@.*/, "", $1); print $1 }' | sort -u
}

looked_up()
{
	sed -n '/^#define SP_FOR_EACH_NEXT(X)/,/[^\\]$/s/^[[:space:]]*X(\([A-Za-z0-9_]*\)).*/\1/p' "$LOOKUPS" |
		while read -r name; do
			grep -q "^[[:space:]]*$name;" "$EXPORTS" || echo "~$name"
		done
}

declare -A used=()
while read -r name; do
	[[ ! $name =~ $NEVER ]] || complain "$OBJECT uses $name, which nothing can allow"
	found=
	for entry in "${entries[@]}"; do
		# shellcheck disable=SC2053 # it is a pattern
		if [[ $name == $entry ]]; then
			used[$entry]=1
			found=1
		fi
	done
	[[ -n $found ]] || complain "$OBJECT uses $name, which is not in $LIST"
done < <(imported; looked_up)
for entry in "${entries[@]}"; do
	[[ -n ${used[$entry]:-} ]] || complain "$LIST: nothing uses $entry any more"
done
exit "$bad"
