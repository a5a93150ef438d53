#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian 12 packages of the groups named on the command line: build demo test symbols
# names lint bench carrier deb rpm cross kernels corpus peers products. This is the only list of
# packages. If all of these are installed, the script ends quickly. It removes no package.
set -euo pipefail

# "package=program": the package is not needed if that program is on the PATH.
declare -A GROUP=(
	[build]="gcc make pkg-config libc6-dev binutils libunwind-dev libprotobuf-c-dev
		protobuf-c-compiler libcurl4-openssl-dev libjansson-dev libmicrohttpd-dev libdw-dev libelf-dev
		liblzma-dev zlib1g-dev libiberty-dev"
	[demo]="g++ libmicrohttpd-dev libcurl4-openssl-dev curl opentelemetry-cpp-dev
		libabsl-dev"
	[test]="libcriterion-dev clang strace valgrind golang-go=go gdb python3 perl git curl sed gawk tar gzip
		findutils diffutils procps util-linux libmicrohttpd-dev busybox-static=busybox
		bubblewrap musl-tools libcap2-bin dash coreutils debootstrap xz-utils dwz openssl
		patchelf python3-yaml python3-venv systemd groff libjemalloc2 libgoogle-perftools4 libtcmalloc-minimal4 libmimalloc2.0
		libeatmydata1 libfaketime libclang-rt-14-dev g++ lld libboost-context-dev nodejs=node
		erlang-base varnish openjdk-17-jre-headless=java"
	[symbols]="rustc=rustc"
	[names]="gdb g++ clang-14 clang-19 lld-14 lld-19 gfortran gnat-12 libc6-dbg dwz"
	[lint]="clang clang-format clang-tidy shellcheck libcriterion-dev"
	[bench]="g++ python3 curl procps libunwind-dev libgoogle-perftools4 libjemalloc2 heaptrack redis-server
		redis-tools nodejs=node valgrind"
	[carrier]="patchelf binutils dpkg busybox-static=busybox"
	[deb]="dpkg-dev debhelper lintian fakeroot git tar python3"
	[rpm]="rpm git"
	[corpus]="redis-server redis-tools nginx-light memcached php-cli mariadb-server postgresql
		nodejs openjdk-17-jre-headless sqlite3 openssl xz-utils gcc clang coreutils python3 perl
		bash git gzip tar curl strace procps"
	[products]="python3-venv python3-pymysql"
	[peers]="libpython3.11-testsuite python3-venv redis-server redis-tools tcl postgresql cmake g++ dpkg-dev procps
		libgoogle-perftools-dev libgmock-dev libbenchmark-dev libsnappy-dev"
	[cross]="gcc-aarch64-linux-gnu g++-aarch64-linux-gnu qemu-user"
	[kernels]="qemu-system-x86 qemu-system-arm busybox-static=busybox"
)
# A loader for 32-bit programs; only amd64 has a package with just that.
[[ $(dpkg --print-architecture 2>/dev/null) != amd64 ]] || GROUP[test]+=" libc6-i386=/lib/ld-linux.so.2"
# These packages come from backports, because bookworm lacks them, though every later release has
# them. No other package comes from backports, so that no other package gets newer.
readonly -A BACKPORTED=([opentelemetry-cpp-dev]="opentelemetry-cpp")
readonly SUITE=bookworm-backports
readonly SUITE_LIST=/etc/apt/sources.list.d/$SUITE.list

die()
{
	echo "install-deps: $*" >&2
	exit 1
}

wanted()
{
	local group

	for group in "$@"; do
		[[ -v GROUP[$group] ]] || die "no such group: $group (groups: ${!GROUP[*]})"
		tr -s '[:space:]' '\n' <<<"${GROUP[$group]}"
	done | sort -u
}

# installed PACKAGE[=PROGRAM]
installed()
{
	[[ $(dpkg-query -W -f '${db:Status-Status}' "${1%=*}" 2>/dev/null) == installed ]] ||
		{ [[ $1 == *=* ]] && command -v "${1#*=}" >/dev/null; }
}

as_root()
{
	if ((EUID == 0)); then
		"$@"
	else
		sudo -n "$@"
	fi
}

# Runs apt-get without the descriptor of main()'s lock: servers that packages start would inherit it.
apt()
{
	as_root env DEBIAN_FRONTEND=noninteractive apt-get -y -q -o DPkg::Lock::Timeout=300 \
		-o Acquire::Retries=3 "$@" </dev/null 9<&-
}

# Prints "release mirror" of every binary package list that apt knows; the $(names) are apt's own.
apt_lists()
{
	apt-get indextargets --format '$(RELEASE) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' |
		awk '$2 == "main" { print $1, $3 }'
}

# The suite comes from the mirror that this machine already uses for bookworm.
suite_add()
{
	local mirror

	mirror=$(apt_lists | awk '$1 == "bookworm" { print $2; exit }')
	[[ -n $mirror ]] || die "no apt source for bookworm to derive $SUITE from; add $SUITE by hand"
	echo "install-deps: adding suite $SUITE from $mirror in $SUITE_LIST"
	as_root tee "$SUITE_LIST" >/dev/null <<<"deb $mirror $SUITE main"
}

backport_version()
{
	apt-cache madison "$1" | awk -F ' *[|] *' -v suite="$SUITE/" 'index($3, suite) { print $2; exit }'
}

update()
{
	apt update && return
	# A suite that the mirror does not have must not break this machine's apt for good.
	if [[ -v suite_added ]]; then
		as_root rm -f "$SUITE_LIST"
	fi
	die "apt-get update failed"
}

# Sets removed: the packages that apt would remove to install these.
find_removed()
{
	mapfile -t removed < <(apt-get -s -o Debug::NoLocking=true install --no-install-recommends "$@" 2>/dev/null |
		awk '$1 == "Remv" { print $2 }')
}

# Sets missing: the packages of these groups that are not installed.
find_missing()
{
	local pkg

	missing=()
	for pkg in $(wanted "$@"); do
		installed "$pkg" || missing+=("${pkg%=*}")
	done
}

main()
{
	local pkg missing=() install=() backported=() removed=()

	(($# > 0)) || die "usage: scripts/install-deps.sh GROUP... (groups: ${!GROUP[*]})"
	find_missing "$@"
	((${#missing[@]} > 0)) || return 0
	# Locked: make runs several of these scripts at once, and apt-get update does not wait for
	# another apt-get.
	exec 9<"$0"
	flock 9
	find_missing "$@"
	((${#missing[@]} > 0)) || return 0

	command -v apt-get >/dev/null || die "no apt-get here; install by hand: ${missing[*]}"
	((EUID == 0)) || sudo -n true 2>/dev/null ||
		die "needs root or password-less sudo to install: ${missing[*]}
  (anybody can go on after: sudo scripts/install-deps.sh $*)"
	echo "install-deps: installing ${missing[*]}"
	for pkg in "${missing[@]}"; do
		if [[ -v BACKPORTED[$pkg] && $(apt_lists) == *bookworm* ]]; then
			if ! apt_lists | grep -q "^$SUITE "; then
				suite_add
				suite_added=1
			fi
			backported+=("$pkg" "${BACKPORTED[$pkg]}")
		else
			install+=("$pkg")
		fi
	done
	update
	# Asks for versions instead of a suite, which would also apply to the dependencies.
	for pkg in "${backported[@]}"; do
		install+=("$pkg=$(backport_version "$pkg")")
	done
	# A package that somebody installed may conflict with one of ours, for example libc++-dev with
	# libunwind-dev. This script must not remove that package.
	find_removed "${install[@]}"
	((${#removed[@]} == 0)) ||
		die "not installing ${missing[*]}: apt would remove ${removed[*]}. Remove these yourself if you do not need them, or build in a container"
	apt install --no-install-recommends --no-remove "${install[@]}"
}

main "$@"
