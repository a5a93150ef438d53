#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Usage: bundle.sh DIR. All of us into DIR/bin and DIR/lib/spanprof, for images that have nothing of what
# we need. The preloaded object needs the program's own C library alone. The programs that need more lie
# in DIR/lib/spanprof/bundle, with their libraries, the C library and its loader among them, so that
# they run in images with an older one or another; in their places stands a static program that starts
# them there (scripts/carrier). Nothing of the bundle ever gets into a program's process.
set -euo pipefail

readonly BIN=$1/bin LIB=$1/lib/spanprof
readonly BUNDLE=$LIB/bundle
# Copied to the byte: it does not expect to be changed, and finds none of its own by a search path.
readonly GLIBC='^(ld-linux.*|libc|libm|libdl|libpthread|librt|libresolv|libanl|libutil|libnss_.*)\.so'
readonly PROGRAMS=(exporter report)
# What the exporter loads when it first needs it (export/push/libcurl.c).
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

# Whatever LD_LIBRARY_PATH says. Not inherited, so each says it.
search_here()
{
	patchelf --force-rpath --set-rpath '$ORIGIN' "$1"
}

# packages PATH...: lines "PATH PACKAGE", without the /usr that a path has or not, as /lib is a link there. dpkg-query reads
# the lists of all packages each time that it is asked, so it is asked once.
packages()
{
	{ dpkg-query -S "$@" "${@#/usr}" "${@/#//usr}" 2>/dev/null || true; } |
		sed -n '/^diversion /d; s|^\([^:, ]*\).*: \(/usr\)\?\(/.*\)$|\3 \1|p'
}

# The notice that its license wants to go with it. copy_notice PATH
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
# No symbolic link: an init container copies the folder once more after a restart, and busybox's cp does not
# replace links.
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

# All that is needed is there: nothing may come from the image by chance.
[[ -e $BUNDLE/$AT_FIRST_REQUEST ]] || die "no $AT_FIRST_REQUEST"
for object in "$BUNDLE"/spanprof-* "$BUNDLE"/*.so*; do
	while read -r name; do
		[[ $name == "${loader##*/}" || -e $BUNDLE/$name ]] || die "$object needs $name"
	done < <(needed_of "$object")
done
