#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Puts the arm64 libraries that the cross build links and the emulator runs into one folder,
# DIR/root, from this machine's own package sources. Installs nothing: apt has a separate state in
# DIR, and the packages are only unpacked.
#
#	scripts/arm64-root.sh DIR [PACKAGE...]    with more packages
set -euo pipefail

readonly PACKAGES=("${@:2}" libc6-dev libstdc++-12-dev libcriterion-dev libcurl4-openssl-dev libdw-dev libelf-dev
	libprotobuf-c-dev libjansson-dev libunwind-dev libiberty-dev liblzma-dev zlib1g-dev libabsl-dev
	libmicrohttpd-dev)
# These packages come from backports, in the version that is installed on this machine.
readonly BACKPORTED=(opentelemetry-cpp-dev opentelemetry-cpp)

(($# > 0)) || {
	echo "usage: scripts/arm64-root.sh DIR [PACKAGE...]" >&2
	exit 2
}
mkdir -p "$1"
dir=$(cd "$1" && pwd)
rm -rf "$dir/root"
mkdir -p "$dir/state/lists/partial" "$dir/cache/archives/partial" "$dir/root"
: >"$dir/status"
cat >"$dir/apt.conf" <<CONF
APT::Architecture "arm64";
APT::Architectures { "arm64"; };
APT::Install-Recommends "false";
APT::Sandbox::User "root";
Acquire::Retries "3";
Dir::State "$dir/state";
Dir::State::status "$dir/status";
Dir::Cache "$dir/cache";
Debug::NoLocking "true";
CONF
export APT_CONFIG=$dir/apt.conf

version=$(dpkg-query -W -f '${Version}' "${BACKPORTED[0]}")
apt-get -q -y update </dev/null
apt-get -q -y install --download-only "${PACKAGES[@]}" "${BACKPORTED[@]/%/=$version}" </dev/null

for package in "$dir"/cache/archives/*.deb; do
	dpkg -x "$package" "$dir/root"
done
# Absolute links would lead out of the folder.
find "$dir/root" -type l -lname '/*' -print0 | while IFS= read -r -d '' link; do
	ln -snfr "$dir/root$(readlink "$link")" "$link"
done
rm -rf "$dir/cache" "$dir/state"
