#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# kernels.sh [NAME...]: the tests of inside.sh on Debian's kernels, in an emulated machine each: "stable" and
# "backports" for amd64, "arm64" with the programs of build/aarch64. Without a name all of them run. Exit status 0:
# all passed.
set -euo pipefail
cd "$(dirname "$0")/../.."

readonly CACHE=build/kernels
# Programs that the scripts of test/e2e and the runner call; the project's folder has the libraries.
readonly ARM_PROGRAMS=(linux-image-arm64 binutils busybox-static bash dash coreutils util-linux mount grep sed gawk python3
	procps findutils diffutils strace curl hostname)

# The newest kernel package from backports, or from the release itself.
package()
{
	local version

	version=$(apt-cache madison linux-image-amd64 | awk -F ' *[|] *' -v from="$1" \
		'(from == "backports") == ($2 ~ /~bpo/) { print $2; exit }')
	[[ -n $version ]] || return 1
	apt-cache show "linux-image-amd64=$version" | sed -n 's/^Depends: \(linux-image-[^ ,]*\).*/\1/p' | head -n 1
}

# fetched NAME: unpacks that kernel; prints the folder
fetched()
{
	local name folder

	name=$(package "$1") || return 1
	folder=$CACHE/$name
	if [[ ! -e $folder/boot ]]; then
		mkdir -p "$CACHE"
		# apt downloads as a separate user, and prints a message if that user cannot write here.
		(cd "$CACHE" && apt-get -q download "$name" >apt.log 2>&1) || return 1
		dpkg-deb -x "$CACHE/${name}"_*.deb "$folder"
		rm "$CACHE/${name}"_*.deb
	fi
	echo "$folder"
}

# Prints the folder with a kernel and the programs for it.
arm_root()
{
	local root=$CACHE/arm64-root/root

	if [[ ! -e $root/etc/passwd ]]; then
		scripts/arm64-root.sh "$CACHE/arm64-root" "${ARM_PROGRAMS[@]}" >"$CACHE/arm64.log" 2>&1 || return 1
		# The packages' scripts would do this.
		ln -sf dash "$root/bin/sh"
		ln -sf gawk "$root/usr/bin/awk"
		echo 'root:x:0:' >"$root/etc/group"
		echo 'root:x:0:0:root:/root:/bin/bash' >"$root/etc/passwd"
	fi
	echo "$root"
}

(($# > 0)) || set -- stable backports arm64
mkdir -p "$CACHE"
failed=()
for name in "$@"; do
	architecture=amd64 root=/ get=fetched
	[[ $name != arm64 ]] || architecture=arm64 get=arm_root
	if ! kernel=$("$get" "$name"); then
		echo "kernels: no packages for $name to be had"
		failed+=("$name")
		continue
	fi
	[[ $name != arm64 ]] || root=$(realpath "$kernel")
	test/kernels/boot.sh "$architecture" "$kernel" "$root" test/kernels/inside.sh || failed+=("$name")
done
((${#failed[@]} == 0)) || {
	echo "kernels: failed: ${failed[*]}"
	exit 1
}
echo "kernels: $* passed"
