#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# spanprof-preload and /etc/ld.so.preload, in a root of its own: foreign entries survive to the byte,
# nothing is done twice, nothing that keeps programs from running gets in or stays, and a set-user-id
# program is left alone. The machine's own file is never touched.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash
# shellcheck source=test/install/root.bash
source test/install/root.bash

((EUID == 0)) || skip "needs root for chroot"
need chroot dash flock gcc setpriv
readonly NOBODY=65532
readonly IMAGE=$WORK/image FILE=$WORK/image/etc/ld.so.preload
readonly OBJECT=$PRODUCT/lib/spanprof/libspanprof.so
chmod 755 "$WORK"
root_make "$IMAGE"
root_add "$IMAGE" "$(type -P dash)" /bin/sh
for program in true ls cmp cp mv rm cat ln mkfifo mktemp flock readlink; do
	root_add "$IMAGE" "$(type -P "$program")" "/bin/$program"
done
cp scripts/spanprof-preload "$IMAGE$PRODUCT/bin"
chown -R 0:0 "$IMAGE"
chmod -R u=rwX,go=rX "$IMAGE"

# foreign NAME BODY: one more object for everybody
foreign()
{
	echo "$2" | gcc -shared -fPIC -o "$IMAGE/lib/$1.so" -x c - "${@:3}"
}
foreign one 'int one;'
foreign two 'int two;'

# preload NAME STATUS ARGUMENT...: from outside
preload()
{
	local name=$1 status=$2

	shift 2
	run "$name" scripts/spanprof-preload --root "$IMAGE" --object "$OBJECT" "$@"
	expect_rc "$name" "$status"
}

# holds TEXT: the file has exactly these bytes
holds()
{
	printf %b "$1" | cmp - "$FILE" || fail "the file is: $(od -c "$FILE")"
}

preload none 1 status
preload on 0 enable
holds "$OBJECT\n"
[[ $(stat -c %a "$FILE") == 644 ]] || fail "other users cannot read the file"
preload is 0 status
preload again 0 enable
holds "$OBJECT\n"
grep -q 'already enabled' "$WORK/again.err" || fail "$(<"$WORK/again.err")"
preload off 0 disable
[[ ! -e $FILE ]] || fail "an empty file remains"
preload off.again 0 disable
preload gone 1 status

# Foreign entries: lines, lists, blanks, no newline at the end, a comment, nothing but blanks.
for text in '/lib/one.so\n' '/lib/one.so' '/lib/one.so:/lib/two.so  \n\n/lib/two.so' '# ours\n/lib/one.so\n' \
	'\n\t \n' '\n'; do
	# shellcheck disable=SC2059 # it holds the escapes
	printf "$text" >"$FILE"
	chmod 640 "$FILE"
	preload on 0 enable
	holds "$OBJECT\n$text"
	preload again 0 enable
	holds "$OBJECT\n$text"
	[[ $(stat -c %a "$FILE") == 640 ]] || fail "the mode of the file has changed"
	preload off 0 disable
	holds "$text"
done

# Where somebody else put us between his own entries.
while IFS='|' read -r before after; do
	printf %b "$before" >"$FILE"
	preload off 0 disable
	holds "$after"
done <<END_OF_CASES
/lib/one.so $OBJECT /lib/two.so\n|/lib/one.so /lib/two.so\n
$OBJECT:/lib/one.so|/lib/one.so
/lib/one.so:$OBJECT|/lib/one.so
  $OBJECT  $OBJECT \t/lib/one.so\n/lib/two.so|/lib/one.so\n/lib/two.so
/lib/one.so\n$OBJECT\n/lib/two.so\n|/lib/one.so\n/lib/two.so\n
/lib/one.so\n# $OBJECT\n|/lib/one.so\n# $OBJECT\n
END_OF_CASES

# What is nobody's to rewrite.
printf '/lib/one.so\n' >"$WORK/elsewhere"
for kind in link folder binary other; do
	rm -rf "$FILE"
	case $kind in
	link) ln -s "$WORK/elsewhere" "$FILE" ;;
	folder) mkdir "$FILE" ;;
	binary) printf '/lib/one.so\0\n' >"$FILE" ;;
	other) echo /elsewhere/libspanprof.so >"$FILE" ;;
	esac
	preload "$kind" 125 enable
	[[ $(wc -l <"$WORK/$kind.err") == 1 ]] || fail "$kind: not one line: $(<"$WORK/$kind.err")"
	# Before the object goes away, there is nothing to do.
	preload "$kind.off" 0 disable
done
[[ $(<"$WORK/elsewhere") == /lib/one.so ]] || fail "written through a link"

# Through a link that leads into the root, absolute or not, our entry is found and taken out where it is.
mkdir -p "$IMAGE/etc/machine"
for target in /etc/machine/preload machine/preload; do
	rm -f "$FILE"
	ln -s "$target" "$FILE"
	preload nowhere.off 0 disable
	printf '/lib/one.so\n%s\n' "$OBJECT" >"$IMAGE/etc/machine/preload"
	preload link.status 0 status
	preload link.off 0 disable
	[[ -L $FILE && $(<"$IMAGE/etc/machine/preload") == /lib/one.so ]] || fail "through a link: $(<"$IMAGE/etc/machine/preload")"
	[[ $(ls "$IMAGE/etc/machine") == preload ]] || fail "files stay behind: $(ls "$IMAGE/etc/machine")"
	rm "$IMAGE/etc/machine/preload"
	preload link.gone 1 status
done
rm -r "$FILE" "$IMAGE/etc/machine"

# Where the entry has to stay, the removal of a package fails, and is told what is left to do.
mv "$IMAGE/bin/flock" "$IMAGE/bin/flock.away"
printf '/lib/one.so\n' >"$FILE"
run others chroot "$IMAGE" "$PRODUCT/bin/spanprof-preload" disable
expect_rc others 0
printf '%s\n' "$OBJECT" >"$FILE"
run stays chroot "$IMAGE" "$PRODUCT/bin/spanprof-preload" disable
expect_rc stays 125
grep -q "flock.*/etc/ld.so.preload still lists $OBJECT.*by hand" "$WORK/stays.err" || fail "$(<"$WORK/stays.err")"
printf '%s\0\n' "$OBJECT" >"$FILE"
preload binary.stays 125 disable
grep -q "not text.*still lists $OBJECT" "$WORK/binary.stays.err" || fail "$(<"$WORK/binary.stays.err")"
mv "$IMAGE/bin/flock.away" "$IMAGE/bin/flock"
rm "$FILE"

# An object that others may change, or that no program survives.
refused()
{
	run refused scripts/spanprof-preload --root "$IMAGE" --object "$1" enable
	expect_rc refused 125
	grep -q "$2" "$WORK/refused.err" || fail "$1: $(<"$WORK/refused.err")"
	[[ ! -e $FILE ]] || fail "$1: written nevertheless"
}
foreign missing 'extern int gone(void); int here(void) { return gone(); }' -Wl,-z,now
foreign fatal '#include <unistd.h>
	__attribute__((constructor)) static void end(void) { _exit(9); }'
foreign noisy '#include <unistd.h>
	__attribute__((constructor)) static void tell(void) { (void)!write(2, "hello\n", 6); }'
install -m 0664 "$IMAGE$OBJECT" "$IMAGE/lib/open.so"
install -m 0600 "$IMAGE$OBJECT" "$IMAGE/lib/secret.so"
install -o "$NOBODY" "$IMAGE$OBJECT" "$IMAGE/lib/theirs.so"
mkdir -m 1777 "$IMAGE/common"
cp "$IMAGE$OBJECT" "$IMAGE/common/odd.so"
printf '\xb7\x00' | dd of="$IMAGE/common/odd.so" bs=1 seek=18 conv=notrunc status=none
cp "$IMAGE/common/odd.so" "$IMAGE/lib/machine.so"
refused /lib/none.so 'no such file'
refused lib/one.so 'not an absolute path'
refused '/lib/a b.so' 'cannot hold blanks'
refused /lib/open.so 'may be written'
refused /common/odd.so 'may be written'
refused /lib/secret.so 'cannot be read by every user'
refused /lib/theirs.so 'does not belong to root'
refused /lib/missing.so 'programs do not run'
refused /lib/fatal.so 'programs do not run'
refused /lib/noisy.so 'programs do not run'
refused /lib/machine.so 'programs do not run'

# The same of the program that it starts.
for mode in 0775:'may be written' 0711:'cannot be read' 0744:'cannot be executed'; do
	chmod "${mode%%:*}" "$IMAGE$PRODUCT/lib/spanprof/spanprof-exporter"
	refused "$OBJECT" "spanprof-exporter ${mode#*:}"
done
chmod 755 "$IMAGE$PRODUCT/lib/spanprof/spanprof-exporter"
chown "$NOBODY" "$IMAGE$PRODUCT/lib/spanprof/spanprof-exporter"
refused "$OBJECT" 'spanprof-exporter does not belong to root'
chown 0 "$IMAGE$PRODUCT/lib/spanprof/spanprof-exporter"

# One that is well until it comes from the file: then no program starts any more, and the shell alone
# has to put back what was there. From inside, as on a real machine.
foreign late '#include <stdlib.h>
	#include <unistd.h>
	__attribute__((constructor)) static void end(void) { if (getenv("LD_PRELOAD") == NULL) _exit(9); }'
for text in '' '/lib/one.so\n/lib/two.so'; do
	# shellcheck disable=SC2059
	[[ -z $text ]] || printf "$text" >"$FILE"
	run late chroot "$IMAGE" "$PRODUCT/bin/spanprof-preload" --object /lib/late.so enable
	expect_rc late 125
	grep -q 'is as it was' "$WORK/late.err" || fail "$(<"$WORK/late.err")"
	if [[ -n $text ]]; then
		holds "$text"
	else
		[[ ! -s $FILE ]] || fail "the file stays"
	fi
	run alive chroot "$IMAGE" /bin/true
	expect_rc alive 0
done

# Somebody else edits the file: before us, between our last reading and our writing (both of which a
# program that we run betrays), or at any time; in place or by another file. His lines stay, and all else.
rm -f "$FILE"
mkdir "$IMAGE/real"
cat >"$IMAGE/edit" <<'END_OF_EDIT'
if [ -e /edits ]; then
	line=$(/real/cat /edits)
	/real/rm /edits
	case $line in
	*append*) echo "$line" >>/etc/ld.so.preload ;;
	*) { /real/cat /etc/ld.so.preload; echo "$line"; } >/etc/theirs && /real/mv /etc/theirs /etc/ld.so.preload ;;
	esac
fi
END_OF_EDIT
for program in ls cp cat rm mv; do
	cp -p "$IMAGE/bin/$program" "$IMAGE/real/$program"
done
lost=0
# edited NAME LINE: the file holds what it should
edited()
{
	local name=$1 line=$2

	expect_rc "$name" 0
	grep -qx "$line" "$FILE" || lost=$((lost + 1))
	grep -qx /lib/one.so "$FILE" || fail "$name: what was there is gone: $(<"$FILE")"
	if [[ $name == on* ]]; then
		[[ $(grep -cxF "$OBJECT" "$FILE") == 1 ]] || fail "$name: not enabled: $(<"$FILE")"
	else
		! grep -xF "$OBJECT" "$FILE" || fail "$name: not disabled"
	fi
}
for hooked in ls cp ln; do
	printf '#!/bin/sh\n. /edit\nexec /real/%s "$@"\n' "$hooked" >"$IMAGE/bin/$hooked.edit"
	chmod 755 "$IMAGE/bin/$hooked.edit"
	cp -p "$IMAGE/bin/$hooked" "$IMAGE/real/$hooked"
	mv "$IMAGE/bin/$hooked.edit" "$IMAGE/bin/$hooked"
	for style in append rename; do
		printf '/lib/one.so\n' >"$FILE"
		echo "# by $style" >"$IMAGE/edits"
		run on.hooked chroot "$IMAGE" "$PRODUCT/bin/spanprof-preload" enable
		[[ ! -e $IMAGE/edits ]] || fail "$hooked does not run"
		edited on.hooked "# by $style"
		[[ $hooked != ls ]] || continue
		echo "# again by $style" >"$IMAGE/edits"
		run off.hooked chroot "$IMAGE" "$PRODUCT/bin/spanprof-preload" disable
		[[ ! -e $IMAGE/edits ]] || fail "$hooked does not run"
		edited off.hooked "# again by $style"
		grep -qx "# by $style" "$FILE" || fail "the first line is gone"
	done
	cp -p "$IMAGE/real/$hooked" "$IMAGE/bin/$hooked"
done
((lost == 0)) || fail "$lost of 10 edits are lost"

# edit_at MICROSECONDS: from now; in place. (Another file that gets the name in the moment between our last
# look and our renaming is lost, and no test can hit that moment at will.)
edit_at()
{
	local until=$((${EPOCHREALTIME/./} + $1))

	while ((${EPOCHREALTIME/./} < until)); do :; done
	echo "# at $1" >>"$FILE"
}
took=$(result on.hooked.ms)
for round in {1..20}; do
	printf '/lib/one.so\n' >"$FILE"
	edit_at $((took * round * 50)) &
	editor=$!
	preload on 0 enable
	wait "$editor"
	grep -q "^# at" "$FILE" || lost=$((lost + 1))
	grep -qx /lib/one.so "$FILE" || fail "what was there is gone: $(<"$FILE")"
done
((lost == 0)) || fail "$lost of 20 edits are lost"

# Owner, mode and attributes stay, and so does a file that holds nothing of ours.
printf '/lib/one.so\n' >"$FILE"
chown "$NOBODY:7" "$FILE"
chmod 604 "$FILE"
attributes=()
if type -P setfattr >/dev/null && setfattr -n user.theirs -v yes "$FILE" 2>/dev/null; then
	attributes=(getfattr -d "$FILE")
fi
stat -c '%u %g %a' "$FILE" >"$WORK/owner"
"${attributes[@]}" >>"$WORK/owner" 2>/dev/null
for action in enable disable; do
	preload "$action" 0 "$action"
	{ stat -c '%u %g %a' "$FILE"; "${attributes[@]}" 2>/dev/null; } | cmp "$WORK/owner" - ||
		fail "$action: owner, mode or attributes have changed"
done
run late chroot "$IMAGE" "$PRODUCT/bin/spanprof-preload" --object /lib/late.so enable
expect_rc late 125
{ stat -c '%u %g %a' "$FILE"; "${attributes[@]}" 2>/dev/null; } | cmp "$WORK/owner" - ||
	fail "put back with another owner, mode or attributes"
holds '/lib/one.so\n'
[[ -z $(find "$IMAGE/etc" -name '*spanprof*') ]] || fail "files stay behind: $(ls "$IMAGE/etc")"

# Two of us at once: one after the other.
rm "$FILE"
preload one 0 enable &
preload two 0 enable
wait "$!"
holds "$OBJECT\n"

# The same entry where there are loaders for 32-bit programs that the kernel does not execute. A shell takes such
# a file for a script of its own; that must not happen.
rm "$FILE"
for loader in lib/ld-linux.so.2 libx32/ld-linux-x32.so.2 lib/ld-linux-armhf.so.3; do
	mkdir -p "$IMAGE/${loader%/*}"
	for kind in nowhere machine script; do
		case $kind in
		nowhere) ln -s /nowhere "$IMAGE/$loader" ;;
		machine) install -m 755 "$IMAGE/lib/machine.so" "$IMAGE/$loader" ;;
		script)
			echo 'echo by a shell >/executed' >"$IMAGE/$loader"
			chmod 755 "$IMAGE/$loader"
			;;
		esac
		preload "$kind" 0 enable
		holds "$OBJECT\n"
		preload "$kind" 0 status
		preload "$kind" 0 disable
		[[ ! -e $IMAGE/executed ]] || fail "a shell has executed a loader"
		rm "$IMAGE/$loader"
	done
done

# From inside, with the object beside the script: ordinary programs are profiled, and one that has
# more rights than its caller is not.
rm -f "$FILE"
run inside chroot "$IMAGE" "$PRODUCT/bin/spanprof-preload" enable
expect_rc inside 0
holds "$OBJECT\n"
cp "$IMAGE/app/test/spend" "$IMAGE/app/test/raised"
chown 65533 "$IMAGE/app/test/raised"
chmod 4755 "$IMAGE/app/test/raised"
chmod 777 "$IMAGE/out"
for program in spend raised; do
	run "$program" SPANPROF_OUTPUT_DIR=/out chroot --userspec="$NOBODY:$NOBODY" "$IMAGE" "/app/test/$program" 50
	expect_rc "$program" 7
	[[ ! -s $WORK/$program.err ]] || fail "$program: $(<"$WORK/$program.err")"
	profiles_in "$IMAGE/out" >"$WORK/$program.profiles"
	rm -f "$IMAGE"/out/*
done
[[ -s $WORK/spend.profiles ]] || fail "the ordinary program was not profiled"
[[ ! -s $WORK/raised.profiles ]] || fail "a set-user-id program was profiled"

# The object goes away: programs run on, each with a line of the loader's, and status tells it.
mv "$IMAGE$OBJECT" "$IMAGE$OBJECT.away"
preload broken 2 status
preload broken.off 0 disable
[[ ! -e $FILE ]] || fail "still enabled"
