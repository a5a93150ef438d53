#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# package.sh deb|rpm: tests that package in a root of its own. It installs, profiles, upgrades and is removed without
# a trace, also from /etc/ld.so.preload. "make deb-test" and "make rpm-test" run it.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash
# shellcheck source=test/install/root.bash
source test/install/root.bash

readonly KIND=$1 IMAGE=$WORK/image OBJECT=/usr/lib/spanprof/libspanprof.so
((EUID == 0)) || skip "needs root for another root folder"
chmod 755 "$WORK"

# Each kind says which file is the package, makes a newer one and prepares the root. refused = does not install if a
# library is missing; add FILE, take = installs and removes.
deb_prepare()
{
	need dpkg dpkg-deb
	files=(build/dist/spanprof_*.deb)
	NEXT=$WORK/next.deb
	[[ -e ${files[0]} ]] || return 0
	# The same package with the next version.
	mkdir "$WORK/next"
	dpkg-deb -R "${files[0]}" "$WORK/next"
	sed -i 's/^Version: .*/&.1/' "$WORK/next/DEBIAN/control"
	dpkg-deb --root-owner-group -b "$WORK/next" "$NEXT" >/dev/null
	VERSION=$(dpkg-deb -f "${files[0]}" Version)
	NEXT_VERSION=$VERSION.1
}

deb_database()
{
	local needed

	mkdir -p "$IMAGE"/var/lib/dpkg/{info,updates,triggers}
	# The package's dependencies, which are installed here; dpkg refuses the package without them.
	mapfile -t needed < <(dpkg-deb -f "${files[0]}" Depends | tr ',' '\n' | awk '{ print $1 }')
	((${#needed[@]} > 3)) || fail "needs only ${needed[*]}"
	dpkg-query -s "${needed[@]}" >"$IMAGE/var/lib/dpkg/status"
	for name in "${needed[@]}"; do
		: >"$IMAGE/var/lib/dpkg/info/$name:$(dpkg --print-architecture).list"
	done
}

deb_refused()
{
	cp "$IMAGE/var/lib/dpkg/status" "$WORK/status"
	sed -i '/^Package: libcurl4/,/^$/d' "$IMAGE/var/lib/dpkg/status"
	run without dpkg --root="$IMAGE" --log=/dev/null -i "${files[0]}"
	expect_rc without 1
	grep -q 'depends on libcurl4' "$WORK/without.err" || fail "installs without libcurl: $(<"$WORK/without.err")"
	package away dpkg --root="$IMAGE" --log=/dev/null -P spanprof
	cp "$WORK/status" "$IMAGE/var/lib/dpkg/status"
}

deb_add()
{
	package add dpkg --root="$IMAGE" --log=/dev/null -i "$1"
}

deb_take()
{
	package take dpkg --root="$IMAGE" --log=/dev/null -r spanprof
}

deb_purge()
{
	package purge dpkg --root="$IMAGE" --log=/dev/null -P spanprof
}

deb_state()
{
	dpkg-query --admindir="$IMAGE/var/lib/dpkg" -W -f '${db:Status-Status} ${Version}' spanprof 2>/dev/null || true
}

rpm_prepare()
{
	need rpm rpmbuild
	files=(build/dist/spanprof-*.rpm)
	[[ -e ${files[0]} ]] || return 0
	RPM_RELEASE=2 scripts/build-rpm.sh "$WORK/next"
	NEXT=$(echo "$WORK"/next/*.rpm)
	VERSION=$(rpm -qp --qf '%{VERSION}-%{RELEASE}' "${files[0]}")
	NEXT_VERSION=${VERSION%-*}-2
	# The package contains its libraries.
	[[ $(rpm -qp --requires "${files[0]}" | grep -v '^rpmlib(' | sort -u | xargs) == '/bin/sh' ]] ||
		fail "needs $(rpm -qp --requires "${files[0]}")"
}

rpm_database()
{
	rpm --root "$IMAGE" --initdb
	# A distribution's own packages have these folders.
	mkdir -p "$IMAGE"/usr/{bin,include,lib,share/{bash-completion/completions,licenses,man/man{1,7,8}}} \
		"$IMAGE/var/tmp"
}

rpm_refused()
{
	:
}

# The programs of the root are in no package there.
rpm_add()
{
	package add rpm --root "$IMAGE" --nodeps -U "$1"
}

rpm_take()
{
	package take rpm --root "$IMAGE" -e spanprof
}

rpm_purge()
{
	:
}

rpm_state()
{
	rpm --root "$IMAGE" -q --qf 'installed %{VERSION}-%{RELEASE}' spanprof 2>/dev/null || true
}

# package NAME COMMAND...
package()
{
	run "$@"
	expect_rc "$1" 0
}

expect_state()
{
	[[ $("${KIND}_state") == "$1" ]] || fail "state: $("${KIND}_state")"
}

all_files()
{
	find "$IMAGE" \( -path "$IMAGE/var/lib/dpkg" -o -path "$IMAGE/var/lib/rpm" \) -prune -o \
		-printf '%P %m %U\n' | sort
}

# profiled NAME COMMAND...: runs it in the root, as nobody
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

need chroot dash
"${KIND}_prepare"
[[ -e ${files[0]} ]] || skip "no package in build/dist (make $KIND)"
root_make "$IMAGE"
rm -r "${IMAGE:?}$PRODUCT"
root_add "$IMAGE" "$(type -P dash)" /bin/sh
for program in true ls; do
	root_add "$IMAGE" "$(type -P "$program")" "/bin/$program"
done
# For its libraries, which the package would bring along.
root_add "$IMAGE" build/spanprof-report /app/test/report
entry=$OBJECT
if [[ $(uname -m) == x86_64 ]] && root_add_small "$IMAGE"; then
	entry='/usr/lib/spanprof/$LIB/libspanprof.so'
fi
"${KIND}_database"
chown -R 0:0 "$IMAGE"
chmod -R u=rwX,go=rX "$IMAGE"
: >"$IMAGE/dev/null"
chmod 777 "$IMAGE/out" "$IMAGE/dev/null"
all_files >"$WORK/before"

"${KIND}_refused"
"${KIND}_add" "${files[0]}"
expect_state "installed $VERSION"
profiled runner /usr/bin/spanprof-run /app/test/spend 50
run report chroot "$IMAGE" /usr/bin/spanprof-report --version
expect_rc report 0
all_files | diff - "$WORK/before" | grep -E '^[<>] (etc|out|app)/' && fail "touches the machine's files"
run enable chroot "$IMAGE" /usr/bin/spanprof-preload enable
expect_rc enable 0
[[ $(<"$IMAGE/etc/ld.so.preload") == "$entry" ]] || fail "entry: $(<"$IMAGE/etc/ld.so.preload")"
echo /lib/other.so >>"$IMAGE/etc/ld.so.preload"
cp "$IMAGE/etc/ld.so.preload" "$WORK/preload"

"${KIND}_add" "$NEXT"
expect_state "installed $NEXT_VERSION"
cmp "$WORK/preload" "$IMAGE/etc/ld.so.preload" || fail "an upgrade changes ld.so.preload"
sed -i /other/d "$IMAGE/etc/ld.so.preload"
profiled everywhere /app/test/spend 50

# Removal works even if somebody has made the file a link,
echo /lib/other.so >>"$IMAGE/etc/ld.so.preload"
mv "$IMAGE/etc/ld.so.preload" "$IMAGE/etc/preload.conf"
ln -s preload.conf "$IMAGE/etc/ld.so.preload"
# and if the object is gone, as if security software had removed it.
rm "$IMAGE$OBJECT"
"${KIND}_take"
[[ $(<"$IMAGE/etc/ld.so.preload") == /lib/other.so ]] || fail "left: $(<"$IMAGE/etc/ld.so.preload")"
rm "$IMAGE/etc/ld.so.preload" "$IMAGE/etc/preload.conf"
"${KIND}_purge"
[[ $("${KIND}_state") != installed* ]] || fail "state: $("${KIND}_state")"
all_files | diff "$WORK/before" - || fail "something else than before"
[[ ! -e $IMAGE$OBJECT ]] || fail "the object remains"
echo "installed, upgraded and removed: ${files[0]##*/}"
