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
need chroot dash gcc setpriv strace unshare
readonly NOBODY=65532
readonly IMAGE=$WORK/image FILE=$WORK/image/etc/ld.so.preload
readonly OBJECT=$PRODUCT/lib/spanprof/libspanprof.so
chmod 755 "$WORK"
root_make "$IMAGE"
root_add "$IMAGE" "$(type -P dash)" /bin/sh
for program in true ls cp mv rm cat; do
	root_add "$IMAGE" "$(type -P "$program")" "/bin/$program"
done
cp build/spanprof-preload "$IMAGE$PRODUCT/bin"
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
	run "$name" build/spanprof-preload --root "$IMAGE" --object "$OBJECT" "$@"
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
for kind in link folder fifo binary large other; do
	rm -rf "$FILE"
	case $kind in
	link) ln -s "$WORK/elsewhere" "$FILE" ;;
	folder) mkdir "$FILE" ;;
	fifo) mkfifo "$FILE" ;;
	large) head -c 300000 /dev/zero | tr '\0' ' ' >"$FILE" ;;
	binary) printf '/lib/one.so\0\n' >"$FILE" ;;
	other) echo /elsewhere/libspanprof.so >"$FILE" ;;
	esac
	preload "$kind" 125 enable
	[[ $(wc -l <"$WORK/$kind.err") == 1 ]] || fail "$kind: not one line: $(<"$WORK/$kind.err")"
	# Before the object goes away, there is nothing to do.
	[[ $kind == large ]] || preload "$kind.off" 0 disable
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

# Where the entry has to stay, the removal of a package fails, and is told what is left to do: on a full disk, on
# a file system that is read-only, and in a file that is not text.
# limited NAME COMMAND...: no file can grow
limited()
{
	run "$1" bash -c '(ulimit -f 0; exec "$@") 2>&1 | cat; exit "${PIPESTATUS[0]}"' limited "${@:2}"
}
# stays NAME REASON
stays()
{
	expect_rc "$1" 125
	grep -q "$2.*/etc/ld.so.preload still lists $OBJECT.*by hand" "$WORK/$1.out" "$WORK/$1.err" ||
		fail "$1: $(cat "$WORK/$1.out" "$WORK/$1.err")"
	[[ $(ls "$IMAGE/etc") == ld.so.preload ]] || fail "$1: files stay behind: $(ls "$IMAGE/etc")"
}
printf '/lib/one.so\n' >"$FILE"
limited others build/spanprof-preload --root "$IMAGE" --object "$OBJECT" disable
expect_rc others 0
printf '/lib/one.so\n%s\n' "$OBJECT" >"$FILE"
limited full build/spanprof-preload --root "$IMAGE" --object "$OBJECT" disable
stays full 'File too large'
holds "/lib/one.so\n$OBJECT\n"
run mounts unshare -m true
if [[ $(result mounts.rc) == 0 ]]; then
	for text in "$OBJECT\n" "/lib/one.so\n$OBJECT\n"; do
		printf %b "$text" >"$FILE"
		run readonly unshare -m bash -c 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && exec "${@:2}"' \
			mounted "$IMAGE/etc" build/spanprof-preload --root "$IMAGE" --object "$OBJECT" disable
		stays readonly 'Read-only file system'
		holds "$text"
	done
fi
printf '%s\0\n' "$OBJECT" >"$FILE"
preload binary.stays 125 disable
stays binary.stays 'not text'
# Who may not read the file is told so.
printf '%s\n' "$OBJECT" >"$FILE"
chmod 600 "$FILE"
run unreadable chroot --userspec="$NOBODY:$NOBODY" "$IMAGE" "$PRODUCT/bin/spanprof-preload" status
expect_rc unreadable 125
grep -q 'cannot be read: Permission denied' "$WORK/unreadable.err" || fail "$(<"$WORK/unreadable.err")"
rm "$FILE"

# An object that others may change, or that no program survives.
refused()
{
	run refused build/spanprof-preload --root "$IMAGE" --object "$1" enable
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

# One that is well until it comes from the file: then no program starts any more, and it is put back what was
# there. From inside, as on a real machine.
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

# Somebody else edits the file when the n-th of the programs that are tried is run: before anything is changed
# (1 and 2), or while it is tried whether programs run with the new file (3); in place, by another file, or in the
# file that was replaced, which the editor has open still. His lines stay, and all else.
rm -f "$FILE"
mkdir "$IMAGE/real"
for program in ls cp cat rm mv; do
	cp -p "$IMAGE/bin/$program" "$IMAGE/real/$program"
done
cat >"$IMAGE/bin/ls" <<'END_OF_EDIT'
#!/bin/sh
printf x >>/runs
if [ "$(/real/cat /runs) $(/real/cat /style)" = "$(/real/cat /at)" ]; then
	case $(/real/cat /style) in
	append) echo '# theirs' >>/etc/ld.so.preload ;;
	open) echo '# theirs' >&9 ;;
	rename) { /real/cat /etc/ld.so.preload; echo '# theirs'; } >/etc/new && /real/mv /etc/new /etc/ld.so.preload ;;
	esac
fi
exec /real/ls "$@"
END_OF_EDIT
for style in append open rename; do
	for at in x xx xxx; do
		printf '/lib/one.so\n' >"$FILE"
		rm -f "$IMAGE/runs"
		echo "$style" >"$IMAGE/style"
		echo "$at $style" >"$IMAGE/at"
		exec 9>>"$FILE"
		run on.hooked chroot "$IMAGE" "$PRODUCT/bin/spanprof-preload" enable
		exec 9>&-
		expect_rc on.hooked 0
		[[ $(<"$IMAGE/runs") == xxx ]] || fail "ls is not run three times"
		holds "$OBJECT\n/lib/one.so\n# theirs\n"
	done
done
cp -p "$IMAGE/real/ls" "$IMAGE/bin/ls"

# The same when the file goes, because nothing else is in it: what an editor writes into it then comes back.
printf '%s\n' "$OBJECT" >"$FILE"
run gone strace -qq -o "$WORK/calls" -e inject=?rename,renameat:delay_exit=300000 build/spanprof-preload --root "$IMAGE" \
	--object "$OBJECT" disable &
until beside=$(compgen -G "$FILE.spanprof.*"); do :; done
echo '# theirs' >>"$beside"
wait "$!"
expect_rc gone 0
holds '# theirs\n'

# And in the moment between our last look and the change, which a tracer makes as long as a test needs: a new file
# lies beside the old one, and then somebody writes. Where the file system cannot exchange names, the same in place.
# during ACTION STYLE INJECT...
during()
{
	local action=$1 style=$2 beside

	printf '/lib/one.so\n' >"$FILE"
	[[ $action == enable ]] || printf '%s\n/lib/one.so\n' "$OBJECT" >"$FILE"
	run during strace -qq -o "$WORK/calls" "${@:3}" build/spanprof-preload --root "$IMAGE" \
		--object "$OBJECT" "$action" &
	until beside=$(compgen -G "$FILE.spanprof.*"); do :; done
	case $style in
	append) echo '# theirs' >>"$FILE" ;;
	rename)
		printf '# theirs\n/lib/one.so\n' >"$IMAGE/etc/new"
		mv "$IMAGE/etc/new" "$FILE"
		;;
	esac
	wait "$!"
	expect_rc during 0
	grep -q renameat2 "$WORK/calls" || fail "nothing was exchanged: ${beside##*/}"
	[[ $(grep -cxF -e '# theirs' -e /lib/one.so "$FILE") == 2 ]] || fail "$action, $style: an edit is lost: $(<"$FILE")"
	[[ $(ls "$IMAGE/etc") == ld.so.preload ]] || fail "$action, $style: files stay behind: $(ls "$IMAGE/etc")"
}
for action in enable disable; do
	for style in append rename; do
		during "$action" "$style" -e inject=renameat2:delay_enter=300000
		[[ $action == disable ]] || [[ $(head -n 1 "$FILE") == "$OBJECT" ]] || fail "not enabled: $(<"$FILE")"
		[[ $action == enable ]] || ! grep -F "$OBJECT" "$FILE" || fail "not disabled"
	done
	during "$action" append -e inject=renameat2:error=EINVAL -e inject=?link,linkat:delay_enter=300000
done

# An editor that has emptied the file goes on to write into the one that was taken away: that is told.
printf '/lib/one.so\n' >"$FILE"
run emptied strace -qq -o "$WORK/calls" -e inject=renameat2:delay_enter=300000 build/spanprof-preload --root "$IMAGE" \
	--object "$OBJECT" enable &
until compgen -G "$FILE.spanprof.*" >/dev/null; do :; done
: >"$FILE"
wait "$!"
expect_rc emptied 0
grep -q 'another program changed .* at the same moment' "$WORK/emptied.err" || fail "it is not told: $(<"$WORK/emptied.err")"

# edit_at MICROSECONDS: from now, in place, at any moment
edit_at()
{
	local until=$((${EPOCHREALTIME/./} + $1))

	while ((${EPOCHREALTIME/./} < until)); do :; done
	echo "# at $1" >>"$FILE"
}
took=$(result on.hooked.ms)
lost=0
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

# From inside, with the object beside the program: ordinary programs are profiled, and one that has
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

# That is when a package has to be removed: from its own place, where the object, or its folder, is not there any more.
# gone NAME STATUS ACTION ENTRY WORDS [PROGRAM]: the file has this entry and others before
gone()
{
	local program=${6-$PRODUCT/bin/spanprof-preload}

	printf '/lib/one.so\n%s\n' "$4" >"$FILE"
	run "$1" chroot "$IMAGE" "$program" "$3"
	expect_rc "$1" "$2"
	cat "$WORK/$1.out" "$WORK/$1.err" | grep -qF "$5" || fail "$1: $(cat "$WORK/$1.out" "$WORK/$1.err")"
}
taken_out()
{
	gone "$1" 0 disable "$2" 'disabled;' "${@:3}"
	holds '/lib/one.so\n'
}
readonly SPREAD=$PRODUCT/lib/spanprof/\$LIB/libspanprof.so
gone gone.enable 125 enable /lib/two.so 'it is not there'
gone gone.others 0 disable /lib/two.so "not enabled: /etc/ld.so.preload does not list $OBJECT"
holds '/lib/one.so\n/lib/two.so\n'
gone gone.status 1 status /lib/two.so "not enabled: /etc/ld.so.preload does not list $OBJECT"
gone gone.listed 2 status "$OBJECT" "no such file: $OBJECT"
gone gone.two 0 disable /elsewhere/libspanprof.so 'it lists another libspanprof.so: /elsewhere/libspanprof.so'
taken_out gone.object "$OBJECT"
taken_out gone.spread "$SPREAD"
mv "$IMAGE$PRODUCT/lib/spanprof" "$IMAGE/away"
taken_out gone.folder "$OBJECT"
# The entry has the path without links.
mv "$IMAGE$PRODUCT/lib" "$IMAGE$PRODUCT/lib.real"
ln -s lib.real "$IMAGE$PRODUCT/lib"
taken_out gone.link "$PRODUCT/lib.real/spanprof/libspanprof.so"
# All in one folder.
mkdir "$IMAGE/flat"
cp build/spanprof-preload "$IMAGE/flat"
taken_out gone.flat /flat/libspanprof.so /flat/spanprof-preload
# Two installations, one of which may be that of the other, if it has none: its own entry goes, and where its own object is
# there, that of the other stays.
readonly LOCAL=/usr/local/lib/spanprof/libspanprof.so OTHER=/usr/lib/spanprof/libspanprof.so
mkdir -p "$IMAGE/usr/local/bin" "$IMAGE/usr/lib" "$IMAGE${LOCAL%/*}"
cp build/spanprof-preload "$IMAGE/usr/local/bin"
cp -r "$IMAGE/away" "$IMAGE${OTHER%/*}"
cp "$IMAGE$OTHER.away" "$IMAGE$OTHER"
taken_out gone.local "$LOCAL" /usr/local/bin/spanprof-preload
taken_out gone.other "$OTHER" /usr/local/bin/spanprof-preload
cp "$IMAGE$OTHER" "$IMAGE$LOCAL"
gone gone.kept 0 disable "$OTHER" "does not list $LOCAL; it lists another libspanprof.so: $OTHER" /usr/local/bin/spanprof-preload
