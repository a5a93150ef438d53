#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Usage: bundle.sh DIR. Puts all our files into DIR/bin and DIR/lib/spanprof, for images without the
# libraries that we need. The preloaded object needs only the program's own C library. The programs
# that need more are in DIR/lib/spanprof/bundle, with their libraries, including the C library and
# its loader, so that they run in images with an older C library or another one. A static program
# with the usual path of each of them starts it there (scripts/carrier). No profiled process loads a
# file of the bundle.
set -euo pipefail

readonly BIN=$1/bin LIB=$1/lib/spanprof
readonly BUNDLE=$LIB/bundle
# Copied unchanged: the C library must not be patched, and finds none of its own libraries by a
# search path.
readonly GLIBC='^(ld-linux.*|libc|libm|libdl|libpthread|librt|libresolv|libanl|libutil|libnss_.*)\.so'
readonly PROGRAMS=(exporter report)
# The exporter loads this library at its first request (export/push/libcurl.c).
readonly AT_FIRST_REQUEST=libcurl.so.4
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

# Makes the object search its own folder first, whatever LD_LIBRARY_PATH says. A library does not
# inherit this from the program, so each object needs it.
search_here()
{
	patchelf --force-rpath --set-rpath '$ORIGIN' "$1"
}

# packages PATH...: prints lines "PATH PACKAGE". Each path is tried with and without /usr, because
# /lib is a link to /usr/lib. dpkg-query reads the lists of all packages at each call, so it is called once.
packages()
{
	{ dpkg-query -S "$@" "${@#/usr}" "${@/#//usr}" 2>/dev/null || true; } |
		sed -n '/^diversion /d; s|^\([^:, ]*\).*: \(/usr\)\?\(/.*\)$|\3 \1|p'
}

# copy_notice PATH: copies the copyright notice of the file's package, as the license requires.
copy_notice()
{
	local package=${package_of[${1#/usr}]-}

	[[ -n $package && -e /usr/share/doc/$package/copyright ]] || die "no copyright notice of $1"
	mkdir -p "$BUNDLE/copyright"
	cp -L "/usr/share/doc/$package/copyright" "$BUNDLE/copyright/$package"
}

for tool in patchelf strip ldd dpkg-query; do
	command -v "$tool" >/dev/null || die "$tool is not installed"
done
rm -rf "$BIN" "$LIB"
mkdir -p "$BIN" "$BUNDLE"
install -m 0644 build/libspanprof{,-alloc}.so "$LIB"
install -m 0755 build/spanprof-run scripts/spanprof-doctor "$BIN"
install -m 0755 build/launcher "$LIB/spanprof-exporter"
install -m 0755 build/launcher "$BIN/spanprof-report"
strip --strip-debug "$LIB"/libspanprof{,-alloc}.so
strip "$BIN"/spanprof-{run,report} "$LIB/spanprof-exporter"
# A second name instead of a symbolic link: an init container copies the folder again after a
# restart, and busybox's cp does not replace links.
ln "$BIN/spanprof-run" "$BIN/spanprof-entrypoint"

loader=$(patchelf --print-interpreter build/spanprof-exporter)
install -m 0755 "$(readlink -f "$loader")" "$BUNDLE/ld.so"
for program in "${PROGRAMS[@]}"; do
	install -m 0755 "build/spanprof-$program" "$BUNDLE"
	strip "$BUNDLE/spanprof-$program"
	search_here "$BUNDLE/spanprof-$program"
done
mapfile -t libraries < <(LD_PRELOAD=$AT_FIRST_REQUEST ldd "${PROGRAMS[@]/#/build/spanprof-}" |
	awk '$2 == "=>" { print $1, $3 }' | sort -u)
declare -A package_of
while read -r path package; do
	package_of[$path]=$package
done < <(packages "${libraries[@]#* }")
for library in "${libraries[@]}"; do
	name=${library%% *} path=${library#* }
	install -m 0644 "$(readlink -f "$path")" "$BUNDLE/$name"
	[[ $name =~ $GLIBC ]] || search_here "$BUNDLE/$name"
	copy_notice "$path"
done

# All needed libraries must be in the bundle: none may come from the image by chance.
[[ -e $BUNDLE/$AT_FIRST_REQUEST ]] || die "no $AT_FIRST_REQUEST"
for object in "$BUNDLE"/spanprof-* "$BUNDLE"/*.so*; do
	while read -r name; do
		[[ $name == "${loader##*/}" || -e $BUNDLE/$name ]] || die "$object needs $name"
	done < <(needed_of "$object")
done
