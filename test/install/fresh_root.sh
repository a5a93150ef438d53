#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The two commands of README on a machine that has nothing: a bare Debian 12 made by debootstrap, HEAD
# cloned into it, and each command run to its last line. "make fresh-root" runs it. Needs root, network,
# some gigabytes of disk and as long as the two commands take; leaves their logs, and with
# FRESH_ROOT_KEEP=1 the root, in build/fresh-root.
# The machine's own package sources, proxies and certificates are used, as they are configured now.
set -euo pipefail
cd "$(dirname "$0")/../.."

readonly SUITE=bookworm
readonly DIR=$PWD/build/fresh-root
readonly ROOT=$DIR/root
# Packages are downloaded once for all runs.
readonly ARCHIVES=$DIR/archives
readonly CLONE=/root/spanprof
# Make for the commands themselves, certificates for sources that are reached by https.
readonly INCLUDE=make,ca-certificates
readonly MACHINE_CERTIFICATES=/usr/local/share/ca-certificates

fail()
{
	echo "fresh-root: $*" >&2
	exit 1
}

# Prints "uri suite" of this machine's sources of the release, its updates and its security fixes.
# Not of backports: adding those is for install-deps.sh to do.
sources()
{
	apt-get indextargets --format '$(RELEASE) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' |
		awk -v suite="$SUITE" '$2 == "main" && $1 ~ "^" suite "(-updates|-security)?$" && !seen[$1]++ {
			print $3, $1
		}'
}

# How this machine's apt reaches its sources. A program that finds proxies is not in the root.
apt_network()
{
	apt-config dump | grep -E '^Acquire::(http|https|ftp)::' | grep -viE 'Proxy-?Auto-?Detect' || true
}

# What downloads for debootstrap knows nothing of apt's settings.
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

root_make()
{
	local mirror

	mirror=$(sources | awk -v suite="$SUITE" '$2 == suite { print $1 }')
	[[ -n $mirror ]] || fail "no apt source for $SUITE to take the mirror from"
	rm -rf --one-file-system "$ROOT"
	mkdir -p "$ARCHIVES/partial"
	export_proxies
	debootstrap --variant=minbase --include="$INCLUDE" --cache-dir="$ARCHIVES" "$SUITE" "$ROOT" \
		"$mirror" >"$DIR/debootstrap.log" 2>&1 || {
		tail -n 3 "$DIR/debootstrap.log" >&2
		fail "no root can be made from the mirror of this machine"
	}
	sources | sed 's/.*/deb & main/' >"$ROOT/etc/apt/sources.list"
	apt_network >"$ROOT/etc/apt/apt.conf.d/99machine"
	named_files <"$ROOT/etc/apt/apt.conf.d/99machine" | xargs -r cp --parents -L -t "$ROOT"
	cp -L /etc/resolv.conf "$ROOT/etc"
	if [[ -d $MACHINE_CERTIFICATES ]]; then
		cp -rL "$MACHINE_CERTIFICATES/." "$ROOT$MACHINE_CERTIFICATES"
		chroot "$ROOT" update-ca-certificates >>"$DIR/debootstrap.log" 2>&1
	fi
	git clone -q --no-local . "$ROOT$CLONE"
	git -C "$ROOT$CLONE" checkout -q --detach "$(git rev-parse HEAD)"
}

# Makes the new root that of this process and its children. Not by chroot, in which the kernel makes no user
# namespaces, so that the tests with containers would be skipped.
root_enter()
{
	mount --bind "$ROOT" "$ROOT"
	mount -t proc proc "$ROOT/proc"
	mount --rbind /sys "$ROOT/sys"
	mount --rbind /dev "$ROOT/dev"
	mount -t tmpfs tmpfs "$ROOT/dev/shm"
	mount --bind "$ARCHIVES" "$ROOT/var/cache/apt/archives"
	mkdir -p "$ROOT/.old"
	cd "$ROOT"
	pivot_root . .old
	umount -l /.old
	rmdir /.old
	cd "$CLONE"
}

# The commands as README says them.
commands()
{
	sed -n '/^## Try it/,/^## Use it/p' README.md | grep -oE '^make [a-z]+'
}

# What the last line of each has to look like; that of the demo is in test/rideshare/README.md.
last_line()
{
	case $1 in
	'make demo')
		sed -n '/<!-- demo:begin -->/,/<!-- demo:end -->/p' test/rideshare/README.md | grep -B 1 '^```$' | head -n 1 |
			sed 's/[].*[]/\\&/g'
		;;
	'make test')
		echo '[1-9][0-9]* passed, 0 failed, [0-9]* skipped'
		;;
	esac
}

# The log of a command ends as it should, and no test needed luck.
ends_well()
{
	tail -n 1 "$2" | grep -qx "$(last_line "$1")" || return
	[[ $1 != 'make test' ]] || tail -n 2 "$2" | grep -qx '0 needed a second try'
}

# In the root. Prints how long each command took and how it ended.
run_commands()
{
	local command log began status bad=0

	while read -r command; do
		log=/var/log/${command// /-}.log
		echo "fresh-root: $command"
		began=$SECONDS
		status=0
		$command </dev/null >"$log" 2>&1 || status=$?
		tail -n 2 "$log"
		echo "fresh-root: $command: exit $status after $((SECONDS - began)) s"
		if ((status != 0)) || ! ends_well "$command" "$log"; then
			grep -A 60 -E '^not ok|\*\*\* |kept as .*; once more' "$log" | tail -n 200 || true
			echo "fresh-root: $command does not end as README says"
			bad=1
		fi
	done < <(commands)
	return "$bad"
}

# In namespaces of its own, with which mounts and processes that are left over go.
make_and_enter()
{
	local proxies=()

	mount -t proc proc /proc
	root_make
	root_enter
	# Nothing of this machine's environment but its proxies.
	mapfile -t proxies < <(env | grep -E '^(http|https|ftp|no)_proxy=' || true)
	exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root \
		"${proxies[@]}" bash test/install/fresh_root.sh commands
}

main()
{
	local program status=0

	((EUID == 0)) || fail "needs root for debootstrap and mounts"
	for program in debootstrap git unshare pivot_root; do
		command -v "$program" >/dev/null || fail "$program is not installed (make deps)"
	done
	[[ -z $(git status --porcelain --untracked-files=no) ]] ||
		echo "fresh-root: changes that are not committed are left out"
	unshare --mount --propagation private --pid --fork --kill-child \
		bash "$PWD/test/install/fresh_root.sh" inside || status=$?
	cp "$ROOT"/var/log/make-*.log "$DIR" 2>/dev/null || true
	if [[ -z ${FRESH_ROOT_KEEP-} ]]; then
		rm -rf --one-file-system "$ROOT"
	fi
	return "$status"
}

case ${1-} in
inside) make_and_enter ;;
commands) run_commands ;;
*) main ;;
esac
