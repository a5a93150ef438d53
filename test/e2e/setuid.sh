#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A program with more rights than its caller is never profiled: the loader does not take our object from LD_PRELOAD,
# and if the administrator forces it in, it stays inert.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

((EUID == 0)) || skip "needs root to make a setuid program"
need setpriv unshare mount
readonly NOBODY=65534

# Nobody must be able to reach and to write all of it.
chmod 755 "$WORK"
mkdir -m 777 "$WORK/profiles"
mkdir -m 755 "$WORK/lib"
cp "$SO" "$EXPORTER" "$WORK/lib"
cp "$HOSTS/plain" "$WORK/ordinary"
cp "$HOSTS/plain" "$WORK/setuid"
chmod 755 "$WORK/ordinary"
chown 65533:65533 "$WORK/setuid"
chmod 4755 "$WORK/setuid"

as_nobody=(setpriv --reuid "$NOBODY" --regid "$NOBODY" --clear-groups)
settings=(SPANPROF_PROFILE=always SPANPROF_OUTPUT_DIR="$WORK/profiles")

run secure "${as_nobody[@]}" "$WORK/setuid" 1 libspanprof
grep -qx 'secure 1' "$WORK/secure.out" || skip "set-user-id programs do not work in $WORK (nosuid)"

run preload "${settings[@]}" "${as_nobody[@]}" env LD_PRELOAD="$WORK/lib/libspanprof.so" \
	"$WORK/setuid" 300 libspanprof
expect_rc preload 20
grep -qx 'mapped 0' "$WORK/preload.out" || fail "the loader takes us into a set-user-id program"
[[ ! -s $WORK/preload.err || $(<"$WORK/preload.err") == *"cannot be preloaded"* ]] ||
	fail "$(<"$WORK/preload.err")"
[[ -z $(profiles_in "$WORK/profiles") ]] || fail "a set-user-id program was profiled"

# forced NAME PROGRAM: runs it with our object in /etc/ld.so.preload, which counts for every program, in a mount
# namespace of its own, so that no other program is concerned.
forced()
{
	local name=$1 program=$2

	cat >"$WORK/forced.sh" <<-END
		set -e
		mount --make-rprivate /
		mkdir "$WORK/over"
		mount -t tmpfs tmpfs "$WORK/over"
		mkdir "$WORK/over/upper" "$WORK/over/work"
		mount -t overlay overlay -o "lowerdir=/etc,upperdir=$WORK/over/upper,workdir=$WORK/over/work" /etc
		echo "$WORK/lib/libspanprof.so" >/etc/ld.so.preload
		printf '%s\n' ${settings[*]} >/etc/spanprof.conf
		exec "\$@"
	END
	run "$name" unshare --mount bash "$WORK/forced.sh" "${as_nobody[@]}" \
		"$program" 300 libspanprof
	rmdir "$WORK/over" 2>/dev/null || true
}

forced ordinary "$WORK/ordinary"
if ! grep -qx 'mapped 1' "$WORK/ordinary.out"; then
	echo "LD_PRELOAD part passed"
	skip "no overlay mount here to force us in: $(tail -n 1 "$WORK/ordinary.err")"
fi
expect_rc ordinary 20
compgen -G "$WORK/profiles/*_ordinary-*" >/dev/null || fail "the ordinary program was not profiled either"
rm "$WORK"/profiles/*
forced forced "$WORK/setuid"
expect_rc forced 20
grep -qx 'secure 1' "$WORK/forced.out" || fail "the program lost its rights"
grep -qx 'mapped 1' "$WORK/forced.out" || fail "we are not even there"
! compgen -G "$WORK/profiles/*_setuid-*" || fail "a set-user-id program was profiled"
[[ ! -s $WORK/forced.err ]] || fail "$(<"$WORK/forced.err")"
