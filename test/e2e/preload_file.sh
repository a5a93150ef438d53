#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# spanprof-preload and /etc/ld.so.preload, in a root of its own: foreign entries survive to the byte, no change is
# made twice, an object that keeps programs from running is never enabled, and a set-user-id program is left alone.
# The machine's own file is never touched.
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

# foreign NAME BODY: another object that is preloaded for everybody
foreign()
{
	echo "$2" | gcc -shared -fPIC -o "$IMAGE/lib/$1.so" -x c - "${@:3}"
}
foreign one 'int one;'
foreign two 'int two;'

# preload NAME STATUS ARGUMENT...: runs the command from outside
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

# inside NAME STATUS ARGUMENT...: runs it inside, where a status may also start programs
inside()
{
	run "$1" chroot "$IMAGE" "$PRODUCT/bin/spanprof-preload" "${@:3}"
	expect_rc "$1" "$2"
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

# Our entry is between another user's entries.
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

# Files that must not be rewritten.
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
	# Before the object is installed, there is nothing to do.
	[[ $kind == large ]] || preload "$kind.off" 0 disable
done
[[ $(<"$WORK/elsewhere") == /lib/one.so ]] || fail "written through a link"

# Through a link that leads into the root, absolute or not, our entry is found and removed where it is.
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

# If the entry cannot be removed, the removal of a package fails, and a message names the remaining steps. Reasons: a
# full disk, a read-only file system, a file that is not text.
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
# A user who may not read the file gets a message.
printf '%s\n' "$OBJECT" >"$FILE"
chmod 600 "$FILE"
run unreadable chroot --userspec="$NOBODY:$NOBODY" "$IMAGE" "$PRODUCT/bin/spanprof-preload" status
expect_rc unreadable 125
grep -q 'cannot be read: Permission denied' "$WORK/unreadable.err" || fail "$(<"$WORK/unreadable.err")"
rm "$FILE"

# An object that others may change, or that kills every program.
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

# The same for the exporter.
for mode in 0775:'may be written' 0711:'cannot be read' 0744:'cannot be executed'; do
	chmod "${mode%%:*}" "$IMAGE$PRODUCT/lib/spanprof/spanprof-exporter"
	refused "$OBJECT" "spanprof-exporter ${mode#*:}"
done
chmod 755 "$IMAGE$PRODUCT/lib/spanprof/spanprof-exporter"
chown "$NOBODY" "$IMAGE$PRODUCT/lib/spanprof/spanprof-exporter"
refused "$OBJECT" 'spanprof-exporter does not belong to root'
chown 0 "$IMAGE$PRODUCT/lib/spanprof/spanprof-exporter"

# An object that works until it is loaded from the file: then no program starts any more, and the former file is
# restored. From inside, as on a real machine.
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

# Another user edits the file when the n-th trial program runs: before the change (1 and 2), or while programs are
# tried with the new file (3). He edits it in place, by a new file, or in the replaced file, which his editor still
# has open. His lines and all others stay.
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

# The same for a file without other entries, which is removed: lines that an editor writes into the file meanwhile
# come back.
printf '%s\n' "$OBJECT" >"$FILE"
run gone strace -qq -o "$WORK/calls" -e inject=?rename,renameat:delay_exit=300000 build/spanprof-preload --root "$IMAGE" \
	--object "$OBJECT" disable &
until beside=$(compgen -G "$FILE.spanprof.*"); do :; done
echo '# theirs' >>"$beside"
wait "$!"
expect_rc gone 0
holds '# theirs\n'

# Also in the moment between our last check and the change, which a tracer lengthens: the new file lies beside the old
# one, and then another program writes. If the file system cannot exchange names, the change is made in place. during
# ACTION STYLE INJECT...
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

# An editor that has emptied the file goes on to write into the removed one: there is a message.
printf '/lib/one.so\n' >"$FILE"
run emptied strace -qq -o "$WORK/calls" -e inject=renameat2:delay_enter=300000 build/spanprof-preload --root "$IMAGE" \
	--object "$OBJECT" enable &
until compgen -G "$FILE.spanprof.*" >/dev/null; do :; done
: >"$FILE"
wait "$!"
expect_rc emptied 0
grep -q 'another program changed .* at the same moment' "$WORK/emptied.err" || fail "it is not told: $(<"$WORK/emptied.err")"

# edit_at MICROSECONDS: edits in place after this time
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

# Owner, mode and attributes stay, and a file without our entry is not changed.
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

# Two commands at once: one runs after the other.
rm "$FILE"
preload one 0 enable &
preload two 0 enable
wait "$!"
holds "$OBJECT\n"

# The same entry if there are loaders for 32-bit programs that the kernel does not execute. A shell would take such a
# file for a script, which must not happen.
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

# An entry is the path without links, and each of its folders is checked: another user may rename his own folders.
rm -f "$FILE"
mkdir -p "$IMAGE/home/alice" "$IMAGE/linked"
cp -r "$IMAGE$PRODUCT/lib/spanprof" "$IMAGE/home/alice/spanprof"
ln -s "$PRODUCT/lib/spanprof" "$IMAGE/linked/ours"
ln -s /home/alice/spanprof "$IMAGE/linked/theirs"
ln -s /linked/ours "$IMAGE/home/alice/back"
run linked build/spanprof-preload --root "$IMAGE" --object /linked/ours/libspanprof.so enable
expect_rc linked 0
holds "$OBJECT\n"
for path in /linked/ours/libspanprof.so /home/alice/back/../spanprof/libspanprof.so; do
	run linked.status build/spanprof-preload --root "$IMAGE" --object "$path" status
	[[ $path == /home* ]] || expect_rc linked.status 0
done
run linked.off build/spanprof-preload --root "$IMAGE" --object /linked/ours/libspanprof.so disable
expect_rc linked.off 0
[[ ! -e $FILE ]] || fail "by a link it is not taken out"
# Entries of former versions.
echo /linked/ours/libspanprof.so >"$FILE"
run linked.off build/spanprof-preload --root "$IMAGE" --object /linked/ours/libspanprof.so disable
[[ ! -e $FILE ]] || fail "an entry with links is not taken out"
chown "$NOBODY" "$IMAGE/home/alice"
refused /home/alice/spanprof/libspanprof.so '/home/alice does not belong to root'
refused /linked/theirs/libspanprof.so '/home/alice does not belong to root'
# The exporter may be in another folder, reached by links.
mkdir "$IMAGE/beside"
cp "$IMAGE$OBJECT" "$IMAGE/beside"
ln -s ../home/alice/back/spanprof-exporter "$IMAGE/beside/spanprof-exporter"
refused /beside/libspanprof.so '/home/alice does not belong to root'
ln -sfn ../linked/theirs/spanprof-exporter "$IMAGE/beside/spanprof-exporter"
refused /beside/libspanprof.so '/home/alice does not belong to root'
ln -sfn spanprof-exporter "$IMAGE/beside/spanprof-exporter"
refused /beside/libspanprof.so 'Too many levels of symbolic links'
ln -sfn "../$PRODUCT/lib/spanprof/spanprof-exporter" "$IMAGE/beside/spanprof-exporter"
run beside build/spanprof-preload --root "$IMAGE" --object /beside/libspanprof.so enable
expect_rc beside 0
rm "$FILE"

# Another user filled the root folder: status runs no program of that folder, and a trial shows these programs no file
# of this machine.
mkdir -m 777 "$IMAGE/told"
echo secret >"$WORK/secret"
chmod 600 "$WORK/secret"
cat >"$WORK/escape.c" <<'END_OF_PROGRAM'
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>
/* What it has: its user, capabilities, descriptors, processes beside it, and a file outside by the way out of a chroot. */
int main(int argc, char **argv)
{
	FILE *out = fopen("/told/told", "a");
	struct stat st;
	int open_ones = 0;
	int root = 0;

	for (int fd = 3; fd < 256; fd++)
		open_ones += fd != fileno(out) && fcntl(fd, F_GETFD) >= 0;
	(void)mkdir("/told/x", 0700);
	if (chroot("/told/x") == 0) {
		for (int i = 0; i < 64; i++)
			root |= chdir("..");
		root = chroot(".") == 0;
	}
	fprintf(out, "uid %d euid %d parent %d pid %d session %d open %d out %d privs %d secret %d proc %d\n", getuid(), geteuid(),
		getppid(), getpid(), getsid(0), open_ones, root,
		prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0), open(SECRET, O_RDONLY) >= 0, stat("/proc/self", &st) == 0);
	for (int cap = 0; cap < 40; cap++)
		if (prctl(PR_CAPBSET_READ, cap, 0, 0, 0) == 1 && prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, cap, 0, 0) == 1)
			fprintf(out, "capability %d\n", cap);
	fclose(out);
	return argc > 1 && argv[1][0] == '-' ? 3 : 0;
}
END_OF_PROGRAM
if gcc -static -O1 "-DSECRET=\"$WORK/secret\"" -o "$WORK/escape" "$WORK/escape.c" 2>/dev/null; then
	for program in true sh ls; do
		mv "$IMAGE/bin/$program" "$IMAGE/real"
		cp "$WORK/escape" "$IMAGE/bin/$program"
	done
	preload question 1 status
	echo "$OBJECT" >"$FILE"
	preload question 0 status
	preload answer 0 disable
	[[ ! -e $IMAGE/told/told ]] || fail "a question runs programs of that root: $(<"$IMAGE/told/told")"
	mkdir -p "$IMAGE/proc"
	# shellcheck disable=SC2016
	run trial unshare -m bash -c 'mount -t proc none "$1/proc" && exec "${@:2}" 9</' bash "$IMAGE" \
		build/spanprof-preload --root "$IMAGE" --object "$OBJECT" enable
	expect_rc trial 0
	[[ $(sort -u "$IMAGE/told/told") == 'uid 65534 euid 65534 parent 0 pid 1 session 1 open 0 out 0 privs 1 secret 0 proc 0' ]] ||
		fail "programs of that root have: $(<"$IMAGE/told/told")"
	for program in true sh ls; do
		mv "$IMAGE/real/$program" "$IMAGE/bin/$program"
	done
	rm -f "$FILE"
else
	left_out "gcc makes no static programs here"
fi

# A lock that any user may hold blocks nothing.
echo "$OBJECT" >"$FILE"
chmod 755 "$IMAGE/etc"
setpriv --reuid="$NOBODY" --regid="$NOBODY" --clear-groups flock -x "$IMAGE/etc" sleep 100 &
STARTED+=("$!")
disown "$!"
poll_until 20 grep -q "^[0-9]*: FLOCK .* $! " /proc/locks || fail "nobody holds no lock"
preload unlocked 0 disable
[[ ! -e $FILE && $(result unlocked.ms) -lt 20000 ]] || fail "another user holds up a removal: $(result unlocked.ms) ms"
kill "$!"

# Settings for all programs: one line for each name, other lines stay. Secrets, unknown names and invalid values are
# refused.
preload set 0 enable --set SPANPROF_SAMPLE_RATE=50 --set SPANPROF_TENANT_ID='a b' --set SPANPROF_SAMPLE_RATE=60
[[ $(<"$IMAGE/etc/spanprof.conf") == $'SPANPROF_TENANT_ID=a b\nSPANPROF_SAMPLE_RATE=60' ]] ||
	fail "$(<"$IMAGE/etc/spanprof.conf")"
[[ $(stat -c '%u %g %a' "$IMAGE/etc/spanprof.conf") == '0 0 644' ]] || fail "$(stat "$IMAGE/etc/spanprof.conf")"
printf '# mine\nSPANPROF_SAMPLE_RATES=1\nSPANPROF_SAMPLE_RATE=1\n' >"$IMAGE/etc/spanprof.conf"
preload set 0 --set SPANPROF_SAMPLE_RATE= enable
[[ $(<"$IMAGE/etc/spanprof.conf") == $'# mine\nSPANPROF_SAMPLE_RATES=1' ]] || fail "$(<"$IMAGE/etc/spanprof.conf")"
# Lists for several servers: a server without a credential has an empty element.
for setting in SPANPROF_AUTH_TOKEN_FILE=,/b "SPANPROF_AUTH_TOKEN_FILE=/a," SPANPROF_TLS_CERT_FILE=,,/c SPANPROF_TENANT_ID=,b; do
	preload set 0 enable --set "$setting"
	grep -qxF "$setting" "$IMAGE/etc/spanprof.conf" || fail "$setting: $(<"$IMAGE/etc/spanprof.conf")"
	preload set 0 enable --set "${setting%%=*}="
done
cp "$IMAGE/etc/spanprof.conf" "$WORK/settings"
# wrong SETTING WORDS
wrong()
{
	preload wrong 125 enable --set "$1"
	grep -q "$2" "$WORK/wrong.err" || fail "$1: $(<"$WORK/wrong.err")"
	! grep -q s3cret "$WORK/wrong.err" || fail "a secret is shown: $(<"$WORK/wrong.err")"
	cmp "$WORK/settings" "$IMAGE/etc/spanprof.conf" || fail "$1: written"
}
wrong SPANPROF_AUTH_TOKEN=s3cret 'every user can read'
wrong PYROSCOPE_BASIC_AUTH_PASSWORD=s3cret 'every user can read'
wrong SPANPROF_HTTP_HEADERS='{"a":"s3cret"}' 'every user can read'
wrong SPANPROF_SERVER_ADDRESS=http://u:s3cret@host 'every user can read'
wrong SPANPROF_EXPORTER=/bin/sh 'no variable of spanprof'
wrong SPANPROF_SAMPLE_RATE 'no variable of spanprof with a value'
wrong SPANPROF_SAMPLE_RATE=x 'the value '
wrong SPANPROF_AUTH_TOKEN_FILE=,b 'the value '
wrong SPANPROF_AUTH_TOKEN_FILE=,/a,/b,/c,/d 'the value '
wrong SPANPROF_OUTPUT_DIR=,/b 'the value '
wrong $'SPANPROF_TENANT_ID=a\nSPANPROF_PROFILE=always' 'one line'
preload wrong 125 disable --set SPANPROF_SAMPLE_RATE=5
chmod 666 "$IMAGE/etc/spanprof.conf"
preload settings.open 2 status
grep -q '/etc/spanprof.conf may be written by others than root, so programs ignore it' "$WORK/settings.open.out" ||
	fail "$(<"$WORK/settings.open.out")"
rm "$IMAGE/etc/spanprof.conf"
ln -s ../real/ls "$IMAGE/etc/spanprof.conf"
preload set.link 125 enable --set SPANPROF_SAMPLE_RATE=5
grep -q 'spanprof.conf is not a regular file' "$WORK/set.link.err" || fail "$(<"$WORK/set.link.err")"
rm "$IMAGE/etc/spanprof.conf"

# From inside, with the object beside the program: ordinary programs are profiled, and a program with more rights than
# its caller is not.
rm -f "$FILE"
run inside chroot "$IMAGE" "$PRODUCT/bin/spanprof-preload" enable
expect_rc inside 0
holds "$OBJECT\n"
cp "$IMAGE/app/test/spend" "$IMAGE/app/test/raised"
chown 65533 "$IMAGE/app/test/raised"
chmod 4755 "$IMAGE/app/test/raised"
chmod 777 "$IMAGE/out"
inside set 0 enable --set SPANPROF_OUTPUT_DIR=/out
for program in spend raised; do
	run "$program" chroot --userspec="$NOBODY:$NOBODY" "$IMAGE" "/app/test/$program" 50
	expect_rc "$program" 7
	[[ ! -s $WORK/$program.err ]] || fail "$program: $(<"$WORK/$program.err")"
	profiles_in "$IMAGE/out" >"$WORK/$program.profiles"
	rm -f "$IMAGE"/out/*
done
[[ -s $WORK/spend.profiles ]] || fail "the ordinary program was not profiled"
[[ ! -s $WORK/raised.profiles ]] || fail "a set-user-id program was profiled"

# The object is removed: programs run on, each with a line of the loader's, and status says so.
mv "$IMAGE$OBJECT" "$IMAGE$OBJECT.away"
preload broken 2 status
inside broken.inside 2 status
preload broken.off 0 disable
[[ ! -e $FILE ]] || fail "still enabled"

# The same when a package is removed, by the command in its own folder, after the object or its folder is gone. gone
# NAME STATUS ACTION ENTRY WORDS [PROGRAM]: the file has this entry and others before
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
# All files in one folder.
mkdir "$IMAGE/flat"
cp build/spanprof-preload "$IMAGE/flat"
taken_out gone.flat /flat/libspanprof.so /flat/spanprof-preload
# Two installations. The entry in the file may belong to the other installation. A command removes the entry of its
# own installation; if its own object exists, the other installation's entry stays.
readonly LOCAL=/usr/local/lib/spanprof/libspanprof.so OTHER=/usr/lib/spanprof/libspanprof.so
mkdir -p "$IMAGE/usr/local/bin" "$IMAGE/usr/lib" "$IMAGE${LOCAL%/*}"
cp build/spanprof-preload "$IMAGE/usr/local/bin"
cp -r "$IMAGE/away" "$IMAGE${OTHER%/*}"
cp "$IMAGE$OTHER.away" "$IMAGE$OTHER"
taken_out gone.local "$LOCAL" /usr/local/bin/spanprof-preload
taken_out gone.other "$OTHER" /usr/local/bin/spanprof-preload
cp "$IMAGE$OTHER" "$IMAGE$LOCAL"
gone gone.kept 0 disable "$OTHER" "does not list $LOCAL; it lists another libspanprof.so: $OTHER" /usr/local/bin/spanprof-preload
