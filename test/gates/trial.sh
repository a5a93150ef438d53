#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every system call that preload/ and sampler/ make by number is one that preload/exporter/trial.c first tries in a
# child: a seccomp filter from before the program may kill a process for any of them.
set -euo pipefail
# shellcheck source=test/gates/seed.bash
source "$(dirname "$0")/seed.bash"

# Not tried: the first three make and end the trial's child, the fourth executes the exporter; process_vm_readv is
# called only under valgrind; of seccomp() only the number is used.
readonly EXEMPT='SYS_clone SYS_exit SYS_exit_group SYS_execve SYS_process_vm_readv SYS_seccomp'
# These files have numbers of the host's calls, and of the kernel's filters.
readonly OF_THE_HOST='masking_call.c'

# calls_in FILE: the calls, without comments
calls_in()
{
	gcc -fpreprocessed -dD -E -P -w -x c "$1" | grep -o '\bSYS_[a-z_0-9]*' || true
}

# untried ROOT: calls that are made there, but not tried; fails if there are any
untried()
{
	local file tried missing

	tried=$(calls_in "$1/preload/exporter/trial.c")
	missing=$(while read -r file; do
		[[ " $OF_THE_HOST " == *" ${file##*/} "* ]] || calls_in "$file"
	done < <(find "$1/preload" "$1/sampler" -name '*.[ch]' ! -name trial.c) |
		sort -u | grep -vxF -e "$tried" -e "${EXEMPT// /$'\n'}" || true)
	[[ -z $missing ]] || { echo "not tried: $missing" && return 1; }
}

expect_pass untried .
mkdir "$work/tree"
cp -r preload sampler "$work/tree"
expect_pass untried "$work/tree"
echo 'long look(void) { return syscall(SYS_times, 0); }' >"$work/tree/sampler/base/look.c"
expect_fail 'not tried: SYS_times' untried "$work/tree"
rm "$work/tree/sampler/base/look.c"
sed -i '/{SYS_bind,/d' "$work/tree/preload/exporter/trial.c"
expect_fail 'not tried: SYS_bind' untried "$work/tree"
