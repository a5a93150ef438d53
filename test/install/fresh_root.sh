#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The two commands of README on an empty machine: a bare Debian 12 made by debootstrap, with a clone of HEAD, in which
# each command runs to its last line. "make fresh-root" runs this. Needs root, network, some gigabytes of disk and as
# long as the two commands take; writes their logs, and with FRESH_ROOT_KEEP=1 keeps the root, in build/fresh-root.
# It uses the machine's present package sources, proxies and certificates.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=test/common/roots.bash
source test/common/roots.bash

readonly SUITE=bookworm
readonly DIR=$PWD/build/fresh-root
readonly ROOT=$DIR/root
# Packages are downloaded once for all runs.
readonly ARCHIVES=$DIR/archives
readonly CLONE=/root/spanprof
# Makes the new root the root of this process and its children. Not by chroot, in which the kernel makes no user
# namespaces, so that tests with containers would be skipped.
root_enter()
{
	mount --bind "$ROOT" "$ROOT"
	root_mount "$ROOT" "$ARCHIVES"
	mkdir -p "$ROOT/.old"
	cd "$ROOT"
	pivot_root . .old
	umount -l /.old
	rmdir /.old
	cd "$CLONE"
}

# The commands in README.
commands()
{
	sed -n '/^## Try it/,/^## Your own service/p' README.md | grep -oE '^make [a-z]+'
}

# The pattern of each command's last line; that of the demo is in test/rideshare/README.md.
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

# The log of a command ends as expected, and no test needed a second try.
ends_well()
{
	tail -n 1 "$2" | grep -qx "$(last_line "$1")" || return
	[[ $1 != 'make test' ]] || tail -n 2 "$2" | grep -qx '0 needed a second try'
}

# Runs in the root. Prints how long each command took and how it ended.
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

# In separate namespaces, which also remove leftover mounts and processes.
make_and_enter()
{
	local environment=()

	mount -t proc proc /proc
	# Make for the commands themselves, certificates for package sources with https.
	root_make "$SUITE" "$ROOT" "$ARCHIVES" make,ca-certificates
	git clone -q --no-local . "$ROOT$CLONE"
	git -C "$ROOT$CLONE" checkout -q --detach "$(git rev-parse HEAD)"
	root_enter
	mapfile -t environment < <(root_environment)
	exec env -i "${environment[@]}" bash test/install/fresh_root.sh commands
}

main()
{
	local status=0

	roots_need git pivot_root
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
