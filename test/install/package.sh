#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The Debian package in a root of its own that knows this machine's packages: installs, profiles,
# upgrades and goes without a trace, also out of /etc/ld.so.preload. "make deb-test" runs it.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash
# shellcheck source=test/install/root.bash
source test/install/root.bash

((EUID == 0)) || skip "needs root for dpkg --root"
need dpkg dpkg-deb chroot dash
readonly IMAGE=$WORK/image OBJECT=/usr/lib/spanprof/libspanprof.so
packages=(build/dist/spanprof_*.deb)
[[ -e ${packages[0]} ]] || skip "no package in build/dist (make deb)"
chmod 755 "$WORK"
root_make "$IMAGE"
rm -r "${IMAGE:?}$PRODUCT"
root_add "$IMAGE" "$(type -P dash)" /bin/sh
for program in true ls cmp cp mv rm cat; do
	root_add "$IMAGE" "$(type -P "$program")" "/bin/$program"
done
mkdir -p "$IMAGE"/var/lib/dpkg/{info,updates,triggers}
# What the package needs, as it is installed here; dpkg refuses the package without.
mapfile -t needed < <(dpkg-deb -f "${packages[0]}" Depends | tr ',' '\n' | awk '{ print $1 }')
((${#needed[@]} > 3)) || fail "needs only ${needed[*]}"
dpkg-query -s "${needed[@]}" >"$IMAGE/var/lib/dpkg/status"
for name in "${needed[@]}"; do
	: >"$IMAGE/var/lib/dpkg/info/$name:$(dpkg --print-architecture).list"
done
chown -R 0:0 "$IMAGE"
chmod -R u=rwX,go=rX "$IMAGE"
: >"$IMAGE/dev/null"
chmod 777 "$IMAGE/out" "$IMAGE/dev/null"

files()
{
	find "$IMAGE" -path "$IMAGE/var/lib/dpkg" -prune -o -printf '%P %m %U\n' | sort
}

# package NAME ARGUMENT...
package()
{
	local name=$1

	shift
	run "$name" dpkg --root="$IMAGE" --log=/dev/null "$@"
	expect_rc "$name" 0
}

state()
{
	dpkg-query --admindir="$IMAGE/var/lib/dpkg" -W -f '${db:Status-Status} ${Version}' spanprof 2>/dev/null || true
}

# profiled NAME COMMAND...: in the root, by nobody
profiled()
{
	local name=$1

	shift
	rm -f "$IMAGE"/out/*
	run "$name" SPANPROF_OUTPUT_DIR=/out chroot --userspec=65532:65532 "$IMAGE" "$@"
	expect_rc "$name" 7
	[[ -n $(profiles_in "$IMAGE/out") && ! -s $WORK/$name.err ]] || fail "$name: $(<"$WORK/$name.err")"
	rm -f "$IMAGE"/out/*
}

# The same, one version later.
mkdir "$WORK/next"
dpkg-deb -R "${packages[0]}" "$WORK/next"
sed -i 's/^Version: .*/&.1/' "$WORK/next/DEBIAN/control"
dpkg-deb --root-owner-group -b "$WORK/next" "$WORK/next.deb" >/dev/null
version=$(dpkg-deb -f "${packages[0]}" Version)

files >"$WORK/before"
cp "$IMAGE/var/lib/dpkg/status" "$WORK/status"
sed -i '/^Package: libcurl4/,/^$/d' "$IMAGE/var/lib/dpkg/status"
run without dpkg --root="$IMAGE" --log=/dev/null -i "${packages[0]}"
expect_rc without 1
grep -q 'depends on libcurl4' "$WORK/without.err" || fail "installs without libcurl: $(<"$WORK/without.err")"
package away -P spanprof
cp "$WORK/status" "$IMAGE/var/lib/dpkg/status"
package install -i "${packages[0]}"
[[ $(state) == "installed $version" ]] || fail "state: $(state)"
profiled runner /usr/bin/spanprof-run /app/test/spend 50
run report chroot "$IMAGE" /usr/bin/spanprof-report --version
expect_rc report 0
files | diff - "$WORK/before" | grep -E '^[<>] (etc|out|app)/' && fail "touches the machine's files"
run enable chroot "$IMAGE" /usr/bin/spanprof-preload enable
expect_rc enable 0
echo /lib/other.so >>"$IMAGE/etc/ld.so.preload"
cp "$IMAGE/etc/ld.so.preload" "$WORK/preload"

package upgrade -i "$WORK/next.deb"
[[ $(state) == "installed $version.1" ]] || fail "state: $(state)"
cmp "$WORK/preload" "$IMAGE/etc/ld.so.preload" || fail "an upgrade changes ld.so.preload"
sed -i /other/d "$IMAGE/etc/ld.so.preload"
profiled everywhere /app/test/spend 50

echo /lib/other.so >>"$IMAGE/etc/ld.so.preload"
package remove -r spanprof
[[ $(<"$IMAGE/etc/ld.so.preload") == /lib/other.so ]] || fail "left: $(<"$IMAGE/etc/ld.so.preload")"
rm "$IMAGE/etc/ld.so.preload"
package purge -P spanprof
[[ $(state) != installed* ]] || fail "state: $(state)"
files | diff "$WORK/before" - || fail "something else than before"
[[ ! -e $IMAGE$OBJECT ]] || fail "the object remains"
echo "installed, upgraded and removed: ${packages[0]##*/}"
