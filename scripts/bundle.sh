#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Usage: bundle.sh DIR. All of us into DIR/bin and DIR/lib/spanprof, and into DIR/lib/spanprof/bundle
# the libraries that the exporter needs, for images that have none of them. glibc is not among them:
# it is the program's own.
#
# The copies and all that names them get names of their own (libcurl-spanprof.so.4). Under their
# common names the first to be loaded would serve everybody: the program's library us, or, where we
# come first, our old library a plugin that the program opens later.
set -euo pipefail

readonly BIN=$1/bin LIB=$1/lib/spanprof
readonly BUNDLE=$LIB/bundle
# All of glibc: two of it in one process do not work.
readonly GLIBC='^(ld-linux.*|libc|libm|libdl|libpthread|librt|libresolv|libanl|libutil|libnss_.*)\.so'
umask 022

die()
{
	echo "bundle: $*" >&2
	exit 1
}

needed_of()
{
	patchelf --print-needed "$1"
}

# libcurl.so.4 -> libcurl-spanprof.so.4
own_name()
{
	echo "${1/.so/-spanprof.so}"
}

# Libraries of glibc keep their names; everything else is renamed.
rename_needs()
{
	local name options=()

	while read -r name; do
		[[ $name =~ $GLIBC ]] || options+=(--replace-needed "$name" "$(own_name "$name")")
	done < <(needed_of "$1")
	((${#options[@]} == 0)) || patchelf "${options[@]}" "$1"
}

# The notices that their licenses want to go with them.
copy_notice()
{
	local package file

	for file in "$1" "${1#/usr}" "/usr$1"; do
		package=$(dpkg-query -S "$file" 2>/dev/null | cut -d: -f1 | sed -n 1p) || true
		[[ -z $package ]] || break
	done
	[[ -n $package && -e /usr/share/doc/$package/copyright ]] || die "no copyright notice of $1"
	mkdir -p "$BUNDLE/copyright"
	cp -L "/usr/share/doc/$package/copyright" "$BUNDLE/copyright/$package"
}

for tool in patchelf strip ldd dpkg-query; do
	command -v "$tool" >/dev/null || die "$tool is not installed"
done
rm -rf "$BIN" "$LIB"
mkdir -p "$BIN" "$BUNDLE"
install -m 0644 build/libspanprof.so build/libspanprof-export.so "$LIB"
install -m 0755 build/spanprof-{run,report,probe} scripts/spanprof-{entrypoint,doctor} "$BIN"
strip --strip-debug "$LIB"/*.so
strip "$BIN"/spanprof-{run,report,probe}
while read -r name path; do
	[[ ! $name =~ $GLIBC ]] || continue
	copy=$BUNDLE/$(own_name "$name")
	install -m 0644 "$(readlink -f "$path")" "$copy"
	patchelf --set-soname "${copy##*/}" "$copy"
	rename_needs "$copy"
	# Not inherited, so each says it.
	patchelf --set-rpath '$ORIGIN' "$copy"
	copy_notice "$path"
done < <(ldd build/libspanprof-export.so build/spanprof-{report,probe} | awk '$2 == "=>" { print $1, $3 }' | sort -u)
rename_needs "$LIB/libspanprof-export.so"
patchelf --set-rpath '$ORIGIN/bundle' "$LIB/libspanprof-export.so"
for program in report probe; do
	rename_needs "$BIN/spanprof-$program"
	patchelf --set-rpath '$ORIGIN/../lib/spanprof/bundle' "$BIN/spanprof-$program"
done

# All that is needed is there: nothing may come from the image by chance.
for object in "$LIB/libspanprof-export.so" "$BIN"/spanprof-{report,probe} "$BUNDLE"/*.so*; do
	while read -r name; do
		[[ $name =~ $GLIBC || -e $BUNDLE/$name ]] || die "$object needs $name"
	done < <(needed_of "$object")
done
