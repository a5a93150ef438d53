#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# spanprof-preload on a machine with 32-bit programs, in a root of its own: through $LIB one entry gives each loader
# an object that it can load. 64-bit programs are profiled and 32-bit ones run without a message. If that is
# impossible, nothing is changed.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash
# shellcheck source=test/install/root.bash
source test/install/root.bash

((EUID == 0)) || skip "needs root for chroot"
need chroot dash as ld ldconfig
[[ -z ${TEST_EMULATOR:-} && $(uname -m) == x86_64 ]] || skip "the 32-bit program is written for x86"
[[ -e build/libspanprof-stub32.so ]] || skip "the linker here makes no objects of 32 bits"
[[ -x $SMALL_LOADER ]] || skip "no loader for 32-bit programs here (package libc6-i386)"
readonly NOBODY=65532
readonly IMAGE=$WORK/image FILE=$WORK/image/etc/ld.so.preload
readonly BESIDE=$PRODUCT/lib/spanprof
readonly OBJECT=$BESIDE/libspanprof.so ENTRY=$BESIDE/'$LIB/libspanprof.so'
chmod 755 "$WORK"

# A 32-bit program that needs a 32-bit C library, and ends with 7.
SMALL_LIBC=$(dirname "$(readlink -f "$SMALL_LOADER")")/libc.so.6
readonly SMALL_LIBC
as --32 -o "$WORK/small.o" - <<'END_OF_PROGRAM'
	.globl _start
_start:	movl $1, %eax
	movl $7, %ebx
	int $0x80
END_OF_PROGRAM
ld -m elf_i386 -dynamic-linker "$SMALL_LOADER" --no-as-needed -o "$WORK/small" "$WORK/small.o" "$SMALL_LIBC"
run small "$WORK/small"
[[ $(result small.rc) == 7 ]] || skip "the kernel does not execute 32-bit programs"

# The folders beside the object are the same as after "make install".
make -s SPANPROF_SKIP_DEPS=1 install DESTDIR="$WORK/files" PREFIX="$PRODUCT" >"$WORK/log"
root_make "$IMAGE"
root_add "$IMAGE" "$(type -P dash)" /bin/sh
for program in true ls; do
	root_add "$IMAGE" "$(type -P "$program")" "/bin/$program"
done
cp build/spanprof-preload "$IMAGE$PRODUCT/bin"
root_add_small "$IMAGE"
cp "$WORK/small" "$IMAGE/app/small"
cp "$IMAGE/app/test/spend" "$IMAGE/app/test/raised"

# The folders as they were installed, restored.
fresh()
{
	rm -rf "$IMAGE$BESIDE"/lib* "$FILE"
	cp -a "$WORK/files$BESIDE"/lib* "$IMAGE$BESIDE"
	cp "$SO" "$IMAGE$OBJECT"
	chown -R 0:0 "$IMAGE$BESIDE"
	chmod -R u=rwX,go=rX "$IMAGE$BESIDE"
}
chown -R 0:0 "$IMAGE"
chmod -R u=rwX,go=rX "$IMAGE"
fresh
chown 65533 "$IMAGE/app/test/raised"
chmod 4755 "$IMAGE/app/test/raised"
chmod 777 "$IMAGE/out"

# preload NAME STATUS ARGUMENT...
preload()
{
	local name=$1 status=$2

	shift 2
	run "$name" build/spanprof-preload --root "$IMAGE" --object "$OBJECT" "$@"
	expect_rc "$name" "$status"
}

# The same from inside, because only there status asks the loaders.
inside()
{
	run "$1" chroot "$IMAGE" "$PRODUCT/bin/spanprof-preload" "${@:3}"
	expect_rc "$1" "$2"
}

# holds TEXT: the file has exactly these bytes
holds()
{
	printf %b "$1" | cmp - "$FILE" || fail "the file is: $(od -c "$FILE")"
}

# in_image NAME STATUS PROGRAM...: runs it as nobody
in_image()
{
	rm -f "$IMAGE"/out/*
	run "$1" chroot --userspec="$NOBODY:$NOBODY" "$IMAGE" "${@:3}"
	expect_rc "$1" "$2"
	profiles_in "$IMAGE/out" >"$WORK/$1.profiles"
}

# An entry without $LIB makes 32-bit programs print a message; status reports it, and enable repairs it.
echo "$OBJECT" >"$FILE"
in_image plain 7 /app/small
grep -q 'wrong ELF class' "$WORK/plain.err" || fail "the 32-bit program does not complain: $(<"$WORK/plain.err")"
inside plain.status 2 status
grep -qF '"spanprof-preload enable" changes the entry' "$WORK/plain.status.out" || fail "$(<"$WORK/plain.status.out")"
printf '%s # theirs\n' "$OBJECT" >"$FILE"
preload changed 0 enable
holds "$ENTRY\n# theirs\n"
rm "$FILE"

# From inside, with the object beside the program.
inside on 0 enable --set SPANPROF_OUTPUT_DIR=/out
holds "$ENTRY\n"
inside is 0 status
grep -qF "$ENTRY" "$WORK/is.out" || fail "$(<"$WORK/is.out")"
preload again 0 enable
grep -q 'already enabled' "$WORK/again.err" || fail "$(<"$WORK/again.err")"
holds "$ENTRY\n"
in_image small 7 /app/small
in_image spend 7 /app/test/spend 50
in_image raised 7 /app/test/raised 50
for program in small spend raised; do
	[[ ! -s $WORK/$program.err ]] || fail "$program: $(<"$WORK/$program.err")"
done
[[ -s $WORK/spend.profiles ]] || fail "the 64-bit program was not profiled"
[[ ! -s $WORK/small.profiles$WORK/raised.profiles ]] || fail "a program was profiled that should not be"
preload off 0 disable
[[ ! -e $FILE ]] || fail "an empty file remains"

# Both forms of our entry count as ours.
while IFS='|' read -r before after; do
	printf %b "$before" >"$FILE"
	preload off 0 disable
	holds "$after"
	printf %b "$before" >"$FILE"
	preload on 0 enable
	holds "$ENTRY\n$after"
done <<END_OF_CASES
$OBJECT:$ENTRY /lib/one.so\n|/lib/one.so\n
# theirs\n$ENTRY $OBJECT\n|# theirs\n
END_OF_CASES

# refused REASON COMMAND...: after the command in the folder of the object, enable changes nothing, and status gives
# the same reason for an enabled object.
refused()
{
	local reason=$1

	shift
	fresh
	preload on 0 enable
	(cd "$IMAGE$BESIDE" && "$@")
	inside bad 2 status
	grep -q "$reason" "$WORK/bad.out" || fail "$*: $(<"$WORK/bad.out")"
	rm "$FILE"
	preload refused 125 enable
	[[ $(wc -l <"$WORK/refused.err") == 1 ]] || fail "$*: not one line: $(<"$WORK/refused.err")"
	grep -q "$reason" "$WORK/refused.err" || fail "$*: $(<"$WORK/refused.err")"
	[[ ! -e $FILE ]] || fail "$*: written nevertheless"
}
small_lib=lib32
[[ $SMALL_LIBC != */i386-linux-gnu/* ]] || small_lib=lib/i386-linux-gnu
large_lib=lib/x86_64-linux-gnu
refused '32-bit programs run .*wrong ELF class' ln -sf "$OBJECT" libspanprof-stub32.so
refused '32-bit programs run .*cannot open' rm "$small_lib/libspanprof.so"
refused '32-bit programs run .*cannot open' rm libspanprof-stub32.so
refused "$small_lib/libspanprof.so may be written" chmod 666 libspanprof-stub32.so
refused "$small_lib may be written" chmod 777 "$small_lib"
refused "$small_lib/libspanprof.so does not belong" chown "$NOBODY" libspanprof-stub32.so
refused "$large_lib may be written" chmod 775 "$large_lib"
refused '/bin/sh would print .*cannot open' rm "$large_lib/libspanprof.so"
# The 64-bit C library may use the folder name that elsewhere belongs to the 32-bit one.
refused '/bin/sh would print .*wrong ELF class' ln -sf ../../libspanprof-stub32.so "$large_lib/libspanprof.so"
refused 'libspanprof.so is not a link' cp --remove-destination libspanprof.so "$large_lib/libspanprof.so"
refused 'spanprof-exporter is not a link' rm "$large_lib/spanprof-exporter"

# Without a C library a loader loads no object, and cannot be asked.
fresh
mv "$IMAGE$SMALL_LIBC" "$WORK/libc.away"
preload refused 125 enable
grep -q '32-bit programs run .*libc.so.6' "$WORK/refused.err" || fail "$(<"$WORK/refused.err")"
mv "$WORK/libc.away" "$IMAGE$SMALL_LIBC"

# The 32-bit loader is removed: the working entry stays.
preload on 0 enable
rm "$IMAGE$SMALL_LOADER"
inside still 0 status
preload still.outside 0 status
preload again 0 enable
holds "$ENTRY\n"
preload off 0 disable
preload on 0 enable
holds "$OBJECT\n"
