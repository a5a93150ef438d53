#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# fetch.sh DIR: the newest opentelemetry-cpp of Debian (sid), with all it needs down to the loader
# and the C library, unpacked in DIR/root, and its sources in DIR/source. DIR/version names it, and changes only
# when a package did.
# The machine's own packages, lists and sources of apt stay as they are: this is an apt of its own, with
# an empty list of what is installed, and packages are unpacked, never installed.
set -euo pipefail

readonly KEYRING=/usr/share/keyrings/debian-archive-keyring.gpg
readonly PACKAGES=(opentelemetry-cpp opentelemetry-cpp-dev)

mkdir -p "$1"
dir=$(cd "$1" && pwd)
readonly dir

die()
{
	echo "sdk-latest: $*" >&2
	exit 1
}

# Whatever mirror this machine has Debian from.
mirror()
{
	local uris

	uris=$(apt-get --print-uris update 2>/dev/null) || true
	sed -n "s,^'\([^']*\)/dists/[a-z]*/InRelease'.*,\1,p" <<<"$uris" | grep -v -- -security | head -1
}

own_apt()
{
	local program=$1

	shift
	"$program" -o Dir::Etc="$dir/apt/etc" -o Dir::Etc::sourcelist="$dir/apt/etc/sources.list" \
		-o Dir::Etc::sourceparts=/dev/null -o Dir::Etc::parts=/dev/null \
		-o Dir::Etc::preferencesparts=/dev/null -o Dir::Etc::trustedparts=/dev/null \
		-o Dir::State="$dir/apt/state" -o Dir::State::status="$dir/apt/state/status" \
		-o Dir::Cache="$dir/apt/cache" -o Dir::Log="$dir/apt/log" -o APT::Architecture=amd64 \
		-o APT::Architectures::=amd64 -o APT::Install-Recommends=false \
		-o APT::Sandbox::User="$(id -un)" -o Acquire::Languages=none \
		-o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false -q "$@"
}

make_apt()
{
	local from

	from=$(mirror)
	mkdir -p "$dir"/apt/{etc,log,state/lists/partial,cache/archives/partial}
	: >"$dir/apt/state/status"
	printf "%s [signed-by=$KEYRING] ${from:-http://deb.debian.org/debian} sid main\n" deb deb-src \
		>"$dir/apt/etc/sources.list"
}

unpack()
{
	local package

	rm -rf "$dir/root" "$dir/source" "$dir/version"
	mkdir "$dir/root" "$dir/source"
	# Not every mirror has sources, or at every time those of the packages that it has.
	[[ ! -s $dir/source.new ]] ||
		tar -xf "$(<"$dir/source.new")" -C "$dir/source" --strip-components=1
	while read -r package; do
		dpkg-deb -x "$dir/apt/cache/archives/$package" "$dir/root"
	done <"$dir/packages.new"
	# of all headers only the SDK's: the rest of the compiler's view of the world stays this machine's
	mkdir "$dir/root/include"
	ln -s ../usr/include/opentelemetry "$dir/root/include/"
	mv "$dir/packages.new" "$dir/packages"
	sed -n 's/^opentelemetry-cpp_\(.*\)_amd64\.deb$/\1/p' "$dir/packages" >"$dir/version"
}

[[ $(dpkg --print-architecture) == amd64 ]] || die "for amd64 only"
[[ -r $KEYRING ]] || die "$KEYRING is missing: install debian-archive-keyring"
make_apt
# A signature that this machine's keyring does not know is an error here, as everywhere.
own_apt apt-get update >"$dir/apt/log/update" 2>&1 || {
	cat "$dir/apt/log/update" >&2
	die "no list of sid's packages (is there a network?)"
}
own_apt apt-get --simulate install "${PACKAGES[@]}" |
	sed -n 's/^Inst \([^ ]*\) (\([^ ]*\) .*\[\([a-z0-9]*\)\]).*/\1_\2_\3.deb/p' | sed 's/:/%3a/' |
	sort >"$dir/packages.new"
[[ -s $dir/packages.new ]] || die "sid has no ${PACKAGES[0]} that can be installed"
own_apt apt-get -y --download-only install "${PACKAGES[@]}" >"$dir/apt/log/install" 2>&1 || {
	tail -5 "$dir/apt/log/install" >&2
	die "sid's packages cannot be had"
}
mkdir -p "$dir/apt/cache/source"
if ! (cd "$dir/apt/cache/source" && own_apt apt-get source --download-only "${PACKAGES[0]}") >"$dir/apt/log/source" 2>&1; then
	echo "sdk-latest: sid's sources cannot be had, so what is built from them is left out"
	# not those of an older release
	rm -rf "$dir/apt/cache/source"
	mkdir "$dir/apt/cache/source"
fi
find "$dir/apt/cache/source" -name 'opentelemetry-cpp_*.orig.tar.*' | sort -V | tail -n 1 >"$dir/source.new"
if ! cmp -s "$dir/packages.new" "$dir/packages" || [[ ! -s $dir/version ]]; then
	unpack
fi
rm -f "$dir/packages.new" "$dir/source.new"
echo "sdk-latest: opentelemetry-cpp $(cat "$dir/version"), $(wc -l <"$dir/packages") packages"
