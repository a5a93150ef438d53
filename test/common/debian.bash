# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Packages of any release of Debian, unpacked in a folder and never installed. The machine's own packages, lists and
# sources of apt stay unchanged: this is a separate apt, with an empty list of installed packages and with the
# machine's mirror, keyring and settings.

readonly DEBIAN_KEYRING=/usr/share/keyrings/debian-archive-keyring.gpg

debian_die()
{
	echo "debian: $*" >&2
	exit 1
}

# own_apt FOLDER PROGRAM ARGUMENT...
own_apt()
{
	local folder=$1 program=$2

	shift 2
	"$program" -o Dir::Etc="$folder/apt/etc" -o Dir::Etc::sourcelist="$folder/apt/etc/sources.list" \
		-o Dir::Etc::sourceparts=/dev/null -o Dir::Etc::parts=/dev/null \
		-o Dir::Etc::preferencesparts=/dev/null -o Dir::Etc::trustedparts=/dev/null \
		-o Dir::State="$folder/apt/state" -o Dir::State::status="$folder/apt/state/status" \
		-o Dir::Cache="$folder/apt/cache" -o Dir::Log="$folder/apt/log" -o APT::Architecture=amd64 \
		-o APT::Architectures::=amd64 -o APT::Install-Recommends=false \
		-o APT::Sandbox::User="$(id -un)" -o Acquire::Languages=none \
		-o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false -q "$@"
}

# debian_apt FOLDER SUITE...: sets up such an apt, with the suites' lists, from the machine's mirror of Debian.
# KINDS="deb deb-src" also gets sources.
debian_apt()
{
	local folder=$1 uris from suite kind

	shift
	[[ $(dpkg --print-architecture) == amd64 ]] || debian_die "for amd64 only"
	[[ -r $DEBIAN_KEYRING ]] || debian_die "$DEBIAN_KEYRING is missing: install debian-archive-keyring"
	uris=$(apt-get --print-uris update 2>/dev/null) || true
	from=$(sed -n "s,^'\([^']*\)/dists/[a-z]*/InRelease'.*,\1,p" <<<"$uris" | grep -v -- -security | head -1)
	mkdir -p "$folder"/apt/{etc,log,state/lists/partial,cache/archives/partial}
	: >"$folder/apt/state/status"
	for suite in "$@"; do
		for kind in ${KINDS:-deb}; do
			echo "$kind [signed-by=$DEBIAN_KEYRING] ${from:-http://deb.debian.org/debian} $suite main"
		done
	done >"$folder/apt/etc/sources.list"
	# A signature that this machine's keyring does not know is an error here too.
	own_apt "$folder" apt-get update >"$folder/apt/log/update" 2>&1 || {
		cat "$folder/apt/log/update" >&2
		debian_die "no list of packages of $* (is there a network?)"
	}
}

# debian_packages FOLDER PACKAGE...: downloads these packages and their dependencies, and prints their files' names.
# Options of apt may stand among the packages.
debian_packages()
{
	local folder=$1 files

	shift
	files=$(own_apt "$folder" apt-get --simulate install "$@" |
		sed -n 's/^Inst \([^ ]*\) (\([^ ]*\) .*\[\([a-z0-9]*\)\]).*/\1_\2_\3.deb/p' | sed 's/:/%3a/' | sort)
	[[ -n $files ]] || debian_die "cannot be installed: $*"
	own_apt "$folder" apt-get -y --download-only install "$@" >"$folder/apt/log/install" 2>&1 || {
		tail -5 "$folder/apt/log/install" >&2
		debian_die "cannot be had: $*"
	}
	echo "$files"
}

# debian_unpack FOLDER: unpacks the packages on stdin into FOLDER/root.
debian_unpack()
{
	local package

	rm -rf "$1/root"
	mkdir "$1/root"
	while read -r package; do
		dpkg-deb -x "$1/apt/cache/archives/$package" "$1/root"
	done
}

# debian_version PACKAGE: its version in such a list on stdin.
debian_version()
{
	sed -n "s/^$1_\(.*\)_[a-z0-9]*\.deb\$/\1/p" | sed 's/%3a/:/'
}
