#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# In a folder for profiles that another user has prepared, or may prepare, nobody but their user reads, deletes or
# plants profiles. If that cannot be guaranteed, one line names the variable and the fault.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

has_nobody || skip "needs root, and a user without rights"
need setpriv python3
readonly NOBODY=65534
readonly -a AS_NOBODY=(setpriv --reuid="$NOBODY" --regid="$NOBODY" --clear-groups)
# The mode of /tmp.
chmod 1777 "$WORK"

# profiled NAME FOLDER COMMAND...: runs as the user of the command, or as root
profiled()
{
	run_under "$1" SPANPROF_OUTPUT_DIR="$2" "${@:3}" "$HOSTS/spend" 50
	expect_rc "$1" 7
}
# kept NAME FOLDER USER: one profile, which belongs to that user alone
kept()
{
	local file

	file=$(profiles_in "$2")
	[[ -n $file && ! -s $WORK/$1.err ]] || fail "$1: no profile: $(<"$WORK/$1.err")"
	[[ $(stat -c '%u %g %a' "$file") == "$3 $3 600" ]] || fail "$1: $(ls -l "$file")"
	[[ $3 == "$NOBODY" ]] || ! "${AS_NOBODY[@]}" cat "$file" >/dev/null 2>&1 || fail "$1: another user reads it"
}
# refused NAME FOLDER REASON
refused()
{
	[[ -z $(ls -A "$2") ]] || fail "$1: written: $(ls -A "$2")"
	[[ $(grep -c 'cannot write a profile into .*SPANPROF_OUTPUT_DIR' "$WORK/$1.err") == 1 ]] ||
		fail "$1: not one line: $(<"$WORK/$1.err")"
	grep -q "$3" "$WORK/$1.err" || fail "$1: $(<"$WORK/$1.err")"
}

# A folder of another user, with each mode, whatever the rights; he may have his own profiles there.
for mode in 2777 0777 1777 0755 3777; do
	"${AS_NOBODY[@]}" mkdir "$WORK/theirs.$mode"
	chmod "$mode" "$WORK/theirs.$mode"
	profiled "theirs.$mode.root" "$WORK/theirs.$mode"
	refused "theirs.$mode.root" "$WORK/theirs.$mode" 'it belongs to another user'
	profiled "theirs.$mode" "$WORK/theirs.$mode" "${AS_NOBODY[@]}"
	kept "theirs.$mode" "$WORK/theirs.$mode" "$NOBODY"
done
# Also through a link that root made.
"${AS_NOBODY[@]}" mkdir -m 777 "$WORK/theirs"
ln -s theirs "$WORK/link"
profiled link "$WORK/link"
refused link "$WORK/theirs" 'it belongs to another user'

# A folder that we make, below one whose group new files are to get.
mkdir -m 2777 "$WORK/shared"
chgrp "$NOBODY" "$WORK/shared"
chmod 2777 "$WORK/shared"
(umask 0 && profiled made "$WORK/shared/new")
kept made "$WORK/shared/new" 0
[[ $(stat -c '%u %g %a' "$WORK/shared/new") == '0 0 700' ]] || fail "$(stat "$WORK/shared/new")"
# Root's own folder, for a group: the profiles belong to root all the same.
mkdir -m 2755 "$WORK/group"
chgrp "$NOBODY" "$WORK/group"
chmod 2755 "$WORK/group"
profiled group "$WORK/group"
kept group "$WORK/group" 0
# Root's folder, for everybody.
mkdir -m 1777 "$WORK/everybody"
profiled everybody "$WORK/everybody" "${AS_NOBODY[@]}"
kept everybody "$WORK/everybody" "$NOBODY"

# Access control lists in the kernel's form, because the tools for them may not be installed. give_list KIND FOLDER
# RIGHTS: gives nobody 4 (read), 2 (write) and 1 (search)
give_list()
{
	python3 - "$@" <<'END_OF_PYTHON'
import os, struct, sys
kind, path, rights = sys.argv[1], sys.argv[2], int(sys.argv[3])
entries = [(1, 7, -1), (2, rights, 65534), (4, 5, -1), (16, rights, -1), (32, 5, -1)]
os.setxattr(path, "system.posix_acl_" + kind, struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *e) for e in entries))
END_OF_PYTHON
}
has_list()
{
	python3 -c 'import os, sys; sys.exit(not any("posix_acl" in n for n in os.listxattr(sys.argv[1])))' "$1"
}
give_list default "$WORK/shared" 7 2>/dev/null || {
	left_out "no access control lists here"
	exit 0
}
profiled inherited "$WORK/shared/below"
kept inherited "$WORK/shared/below" 0
! has_list "$WORK/shared/below" || fail "a folder of ours has a list"
mkdir "$WORK/shared/listed"
has_list "$WORK/shared/listed" || fail "a list is not inherited"
profiled listed "$WORK/shared/listed"
refused listed "$WORK/shared/listed" 'its access control list lets other users in'
mkdir "$WORK/default" "$WORK/given"
give_list default "$WORK/default" 4
give_list access "$WORK/given" 7
for name in default given; do
	profiled "$name" "$WORK/$name"
	refused "$name" "$WORK/$name" 'its access control list lets other users in'
done
