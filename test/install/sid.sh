#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The product in the newest Debian of this machine's mirror: built in a root of sid with warnings as errors, by that
# release's gcc and checked by its clang, with its libraries' headers; the gates check the preloaded objects there,
# and the demo runs. A C library or a compiler that is new there is in all distributions a year later. "make sid" runs
# it. Needs root, network and minutes; the root and its log stay in build/sid.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=test/common/roots.bash
source test/common/roots.bash

readonly DIR=$PWD/build/sid
readonly ROOT=$DIR/root
readonly ARCHIVES=$DIR/archives
readonly DEMO_SECONDS=6

# Runs in separate mount and process namespaces: leftover mounts and processes end with them.
in_root()
{
	local environment=()

	mount -t proc proc /proc
	root_mount "$ROOT" "$ARCHIVES"
	mapfile -t environment < <(root_environment)
	exec chroot "$ROOT" env -i "${environment[@]}" bash -c 'cd /product && exec bash test/install/sid.sh build'
}

say()
{
	echo "sid: $*"
}

build()
{
	local gate

	apt-get -q -q update
	scripts/install-deps.sh build demo lint
	say "$(gcc --version | head -n 1), $(clang --version | head -n 1), glibc $(getconf GNU_LIBC_VERSION | cut -d ' ' -f 2)"
	make DEV=1 all demo-programs compile-gcc
	make compile-clang CLANG=clang
	for gate in exports imports deps tls sigsafe; do
		"scripts/check-$gate.sh"
	done
	# Only for these: the programs belong to the release in which they are built.
	scripts/check-symver.sh build/libspanprof.so
	scripts/check-symver.sh build/libspanprof-alloc.so
	say 'built without warnings; the gates pass'
	SPANPROF_DEMO_SECONDS=$DEMO_SECONDS test/rideshare/demo.sh
	say 'the demo passes'
}

main()
{
	roots_need git tar
	mkdir -p "$DIR"
	say "a root of sid ($ROOT.log)"
	root_make sid "$ROOT" "$ARCHIVES" make,ca-certificates
	mkdir "$ROOT/product"
	git ls-files -z --cached --others --exclude-standard | tar --null --ignore-failed-read -c -T - | tar -x -C "$ROOT/product"
	say "its packages, its build and the demo ($DIR/build.log)"
	if ! unshare --mount --propagation private --pid --fork --kill-child bash test/install/sid.sh in_root \
		>"$DIR/build.log" 2>&1; then
		tail -n 30 "$DIR/build.log" >&2
		roots_die 'the product fails in sid'
	fi
	grep '^sid: ' "$DIR/build.log"
}

case ${1-} in
in_root) in_root ;;
build) build ;;
*) main ;;
esac
