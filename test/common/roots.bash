# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Roots of Debian by debootstrap, with this machine's mirror, proxies and certificates, as they are configured now.
# For scripts that root runs. All files are in folders that the script names.

readonly MACHINE_CERTIFICATES=/usr/local/share/ca-certificates

roots_die()
{
	echo "${0##*/}: $*" >&2
	exit 1
}

# roots_need [PROGRAM]...: the programs for making a root, and these, must exist.
roots_need()
{
	local program

	((EUID == 0)) || roots_die 'needs root for debootstrap and mounts'
	for program in debootstrap chroot unshare "$@"; do
		command -v "$program" >/dev/null || roots_die "$program is not installed (make deps)"
	done
}

# Prints "uri suite" of this machine's sources of a release, its updates and its security fixes, but not of backports,
# which scripts/install-deps.sh adds. For a release without sources on this machine, its mirror.
root_sources()
{
	apt-get indextargets --format '$(RELEASE) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' |
		awk -v suite="$1" '$2 == "main" && $1 ~ "^" suite "(-updates|-security)?$" && !seen[$1]++ {
			print $3, $1
			found = 1
		}
		$2 == "main" && $1 !~ /-/ && mirror == "" { mirror = $3 }
		END { if (!found && mirror != "") print mirror, suite }'
}

# This machine's apt settings for reaching its sources. A program that finds proxies does not exist in the root.
apt_network()
{
	apt-config dump | grep -E '^Acquire::(http|https|ftp)::' | grep -viE 'Proxy-?Auto-?Detect' || true
}

# The program that downloads for debootstrap does not read apt's settings.
export_proxies()
{
	local scheme

	for scheme in http https; do
		if [[ ! -v ${scheme}_proxy ]]; then
			eval "$(apt-config shell "${scheme}_proxy" "Acquire::$scheme::Proxy")"
		fi
	done
	[[ ! -v http_proxy || $http_proxy == DIRECT ]] || export http_proxy
	[[ ! -v https_proxy || $https_proxy == DIRECT ]] || export https_proxy
}

# Files that the settings on stdin name, such as a certificate authority's.
named_files()
{
	local file

	while IFS='"' read -r _ file _; do
		[[ ! -f $file ]] || echo "$file"
	done
}

# root_make SUITE ROOT ARCHIVES PACKAGE[,PACKAGE]...: makes a new root. Packages are downloaded into ARCHIVES, once
# for all roots; ROOT.log has debootstrap's output.
root_make()
{
	local suite=$1 root=$2 archives=$3 packages=$4 mirror trusted=''

	mirror=$(root_sources "$suite" | awk -v suite="$suite" '$2 == suite { print $1 }')
	[[ -n $mirror ]] || roots_die "no apt source to take the mirror of $suite from"
	rm -rf --one-file-system "$root"
	mkdir -p "$archives/partial"
	export_proxies
	debootstrap --variant=minbase --include="$packages" --cache-dir="$archives" "$suite" "$root" \
		"$mirror" >"$root.log" 2>&1 || {
		tail -n 3 "$root.log" >&2
		roots_die "no root of $suite can be made from the mirror of this machine"
	}
	# A mirror may be out of date, and lists of releases that change daily expire after a week.
	[[ $suite != sid ]] || trusted='[check-valid-until=no] '
	root_sources "$suite" | sed "s/.*/deb $trusted& main/" >"$root/etc/apt/sources.list"
	apt_network >"$root/etc/apt/apt.conf.d/99machine"
	named_files <"$root/etc/apt/apt.conf.d/99machine" | xargs -r cp --parents -L -t "$root"
	cp -L /etc/resolv.conf "$root/etc"
	if [[ -d $MACHINE_CERTIFICATES ]]; then
		cp -rL "$MACHINE_CERTIFICATES/." "$root$MACHINE_CERTIFICATES"
		chroot "$root" update-ca-certificates >>"$root.log" 2>&1
	fi
}

# root_mount ROOT ARCHIVES: in a mount namespace that ends with the script (unshare --mount).
root_mount()
{
	mount -t proc proc "$1/proc"
	mount --rbind /sys "$1/sys"
	mount --rbind /dev "$1/dev"
	mount -t tmpfs tmpfs "$1/dev/shm"
	mount --bind "$2" "$1/var/cache/apt/archives"
}

# Prints lines NAME=VALUE, the environment of a command in a root: of this machine's environment only the proxies.
root_environment()
{
	printf '%s\n' PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
	env | grep -E '^(http|https|ftp|no)_proxy=' || true
}
