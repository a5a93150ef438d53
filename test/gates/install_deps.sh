#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# install-deps.sh removes no package: if apt would have to, it says which, and installs nothing. All programs that it
# calls are replaced here, so the test installs nothing.
set -euo pipefail
cd "$(dirname "$0")/../.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin"
printf '#!/bin/sh\nexit 1\n' >"$work/bin/dpkg-query"
printf '#!/bin/sh\n[ "$1" != -n ] || shift\nexec "$@"\n' >"$work/bin/sudo"
cat >"$work/bin/apt-get" <<END_OF_STUB
#!/bin/sh
case "\$*" in
*indextargets*) echo 'bookworm-backports main http://mirror' ;;
*-s\ *) cat "$work/simulated" ;;
*" install "*) echo "\$*" >>"$work/installed" ;;
esac
END_OF_STUB
chmod +x "$work"/bin/*

# install: the output of install-deps.sh, and its status
install()
{
	rm -f "$work/installed"
	PATH=$work/bin:$PATH scripts/install-deps.sh build >"$work/said" 2>&1
}

echo 'Inst libunwind-dev (1.6.2)' >"$work/simulated"
install || { cat "$work/said"; echo 'does not install'; exit 1; }
grep -q -- '--no-remove.* libunwind-dev' "$work/installed" || { echo 'not told to remove nothing'; exit 1; }

printf 'Remv libc++-dev [14.0]\nRemv libc++-14-dev [14.0]\nInst libunwind-dev (1.6.2)\n' >"$work/simulated"
if install; then
	echo 'a package would be removed'
	exit 1
fi
[[ ! -e $work/installed ]] || { echo 'installed all the same'; exit 1; }
grep -q 'apt would remove libc++-dev libc++-14-dev' "$work/said" || { cat "$work/said"; echo 'not said'; exit 1; }
