#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Proves by the linker that code inside the sampling signal handler (*_sig.c) is safe: linked only
# with the objects that it may call, it has no undefined symbol outside of the allow list, and it
# calls through pointers only in the functions listed there.
#
# A line of the allow list is one entry, "#" and the reason. An entry is
#   name            a symbol that may stay undefined
#   *name           a function that may call through a pointer
#   dir/name.o      a whole object that is linked in, and so obeys the same rules
# A line without a reason is an error, and so is an entry that is not needed any more.
# Usage: check-sigsafe.sh [LIST OBJECT...]; default scripts/sigsafe.allow and the release objects.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly LIST=${1:-scripts/sigsafe.allow}
readonly OBJECT_ROOT=${SPANPROF_OBJECT_ROOT:-build/release}
shift $(($# > 0 ? 1 : 0))
objects=("$@")
if ((${#objects[@]} == 0)); then
	while read -r source; do
		objects+=("$OBJECT_ROOT/${source%.c}.o")
	done < <(find sampler preload -name '*_sig.c' | LC_ALL=C sort)
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0

complain()
{
	echo "check-sigsafe: $*"
	bad=1
}

# Prints the functions with a call or jump through a register or memory, without GCC's suffixes for
# split and cloned functions.
calls_through_pointer()
{
	objdump -d --no-show-raw-insn "$@" | awk '
	/^[0-9a-f]+ <.*>:$/ { name = $2; gsub(/[<>:]/, "", name); sub(/\..*/, "", name) }
	/\t(notrack |bnd )?(call|jmp) +\*/ { print name }
	/\tblra?[a-z]*\t|\tbr\t/ { print name }' | sort -u
}

allowed()
{
	sed -e 's/[[:space:]]*#.*//' -e '/^[[:space:]]*$/d' "$LIST" | sort -u
}

while read -r line; do
	[[ $line =~ ^[^#[:space:]]+[[:space:]]+\#[[:space:]]*[^[:space:]] ]] ||
		complain "$LIST: no \"entry  # reason\": $line"
done < <(grep -v -e '^#' -e '^[[:space:]]*$' "$LIST")

for object in $(allowed | grep '/' || true); do
	objects+=("$OBJECT_ROOT/$object")
done
for object in "${objects[@]}"; do
	[[ -e $object ]] || { echo "check-sigsafe: no $object; run make" >&2; exit 1; }
done

${LD:-ld} -r -o "$work/all.o" "${objects[@]}"
nm -u --format=posix "$work/all.o" | awk '{ print $1 }' | grep -vx '_GLOBAL_OFFSET_TABLE_' |
	sort -u >"$work/undefined" || true
calls_through_pointer "$work/all.o" | sed 's/^/*/' >"$work/pointers"
allowed | grep -v '/' >"$work/allowed" || true

while read -r found; do
	case $found in
	__tls_get_addr) complain "__tls_get_addr: thread-local storage that may allocate" ;;
	\**) complain "${found#\*} calls through a pointer" ;;
	*) complain "$found is called or read, and is not on the list" ;;
	esac
	if [[ $found != \** ]]; then
		for object in "${objects[@]}"; do
			if nm -u --format=posix "$object" | grep -q "^$found "; then
				echo "  by ${object#"$OBJECT_ROOT"/}"
			fi
		done
	fi
done < <(sort -u "$work/undefined" "$work/pointers" | comm -23 - "$work/allowed")
while read -r entry; do
	complain "$LIST: nothing uses $entry any more"
done < <(sort -u "$work/undefined" "$work/pointers" | comm -13 - "$work/allowed")
exit "$bad"
