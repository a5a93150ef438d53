#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# fetch.sh DIR: downloads Debian's newest opentelemetry-cpp (sid), with all its dependencies down to the loader and
# the C library, into DIR/root, and its sources into DIR/source. DIR/version names it, and changes only when a package
# changed.
set -euo pipefail

# shellcheck source=test/common/debian.bash
source "${BASH_SOURCE[0]%/*}/../common/debian.bash"
readonly PACKAGES=(opentelemetry-cpp opentelemetry-cpp-dev)

mkdir -p "$1"
dir=$(cd "$1" && pwd)
readonly dir

unpack()
{
	rm -rf "$dir/source" "$dir/version"
	mkdir "$dir/source"
	# Not every mirror has sources, or always has the sources of its packages.
	[[ ! -s $dir/source.new ]] ||
		tar -xf "$(<"$dir/source.new")" -C "$dir/source" --strip-components=1
	debian_unpack "$dir" <"$dir/packages.new"
	# only the SDK's headers: all others stay this machine's
	mkdir "$dir/root/include"
	ln -s ../usr/include/opentelemetry "$dir/root/include/"
	mv "$dir/packages.new" "$dir/packages"
	debian_version "${PACKAGES[0]}" <"$dir/packages" >"$dir/version"
}

KINDS="deb deb-src" debian_apt "$dir" sid
debian_packages "$dir" "${PACKAGES[@]}" >"$dir/packages.new"
mkdir -p "$dir/apt/cache/source"
if ! (cd "$dir/apt/cache/source" && own_apt "$dir" apt-get source --download-only "${PACKAGES[0]}") >"$dir/apt/log/source" 2>&1; then
	echo "sdk-latest: sid's sources cannot be had, so what is built from them is left out"
	# not the sources of an older release
	rm -rf "$dir/apt/cache/source"
	mkdir "$dir/apt/cache/source"
fi
find "$dir/apt/cache/source" -name 'opentelemetry-cpp_*.orig.tar.*' | sort -V | tail -n 1 >"$dir/source.new"
if ! cmp -s "$dir/packages.new" "$dir/packages" || [[ ! -s $dir/version ]]; then
	unpack
fi
rm -f "$dir/packages.new" "$dir/source.new"
echo "sdk-latest: opentelemetry-cpp $(cat "$dir/version"), $(wc -l <"$dir/packages") packages"
