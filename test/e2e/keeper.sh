#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The keeper keeps the rights that its host may give up, and shares the host's memory: an attacker in the host decides
# what code the keeper runs. Here a debugger plays the attacker, and puts system calls into the keeper's registers.
# The kernel refuses all calls except those by which the keeper waits, and ends its exporter.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need gdb
[[ $(uname -m) == x86_64 && -z ${TEST_EMULATOR:-} ]] || skip "the registers are those of x86-64"
((EUID == 0)) || skip "a debugger needs root"

# child_of PID NAME: the process id of that child, if it exists.
child_of()
{
	cat /proc/[0-9]*/status 2>"$WORK/gone" | awk -v parent="$1" -v name="$2" '
		$1 == "Name:" { is = $2 == name }
		$1 == "Pid:" { pid = $2 }
		$1 == "PPid:" && $2 == parent && is { print pid }'
}

has_children()
{
	keeper=$(child_of "$host" spanprof-keeper)
	[[ -n $keeper ]] || return 1
	exporter=$(child_of "$keeper" spanprof-export)
	[[ -n $exporter && $(awk '$1 == "Seccomp:" { print $2 }' "/proc/$keeper/status") == 2 ]]
}

mkfifo "$WORK/end"
env LD_PRELOAD="$SO" SPANPROF_PROFILE=always SPANPROF_OUTPUT_DIR="$WORK" cat <"$WORK/end" >"$WORK/host.out" \
	2>"$WORK/host.err" &
host=$!
exec {end}>"$WORK/end"
poll_until 10 has_children || fail "no keeper with a filter: $(grep -s . "/proc/${keeper:-0}/status")"
[[ $(awk '$1 == "NoNewPrivs:" { print $2 }' "/proc/$keeper/status") == 1 ]] || fail "the keeper may gain rights"

# The id of an ended exporter may belong to another process. So if the kernel has pidfds, the keeper holds one of the
# exporter and no other descriptor, and sends no signal to an id, not even signal 0.
held=$(readlink "/proc/$keeper"/fd/* || true)
if [[ $(uname -r | awk -F. '{ print ($1 > 5 || ($1 == 5 && $2 >= 3)) }') == 1 ]]; then
	[[ $held == 'anon_inode:[pidfd]' ]] || fail "the keeper holds '$held'"
	[[ $(awk '$1 == "Pid:" { print $2 }' "/proc/$keeper/fdinfo/0") == "$exporter" ]] || fail "the pidfd is another process's"
	of_exporter="kill -1 $exporter 0 0
kill -1 $exporter 9 0
pidfd_send_signal -1 0 15 0
pidfd_send_signal -1 1 9 0
pidfd_send_signal 0 0 0 0
pidfd_open -1 1 0 0"
else
	[[ -z $held ]] || fail "the keeper holds '$held'"
	of_exporter="kill 0 $exporter 0 0"
fi

# Each line: a call, the right answer, and its arguments. Without the filter most calls would give EFAULT (-14) or
# succeed.
while read -r call wanted a b c; do
	number=$(printf '#include <sys/syscall.h>\nSYS_%s\n' "$call" | gcc -E -P - | tail -n 1)
	echo "set \$rax = $number"
	echo "set \$rdi = $a"
	echo "set \$rsi = $b"
	echo "set \$rdx = $c"
	echo "set \$r10 = 0"
	echo "set \$rip = \$call"
	echo "stepi"
	# shellcheck disable=SC2028 # it is the debugger that prints
	echo "printf \"$call $wanted %ld\\n\", (long)\$rax"
done >"$WORK/calls" <<END
openat -1 -100 0 0
openat2 -1 -100 0 0
execve -1 0 0 0
socket -1 1 1 0
setuid -1 0 0 0
ptrace -1 16 1 0
process_vm_writev -1 1 0 0
clone -1 17 0 0
mmap -1 0 4096 7
mprotect -1 0 4096 7
prctl -1 4 1 0
kill -1 1 0 0
kill -1 $host 9 0
kill -1 $exporter 15 0
$of_exporter
getppid $host 0 0 0
END
# A stop interrupts rt_sigtimedwait(), and the keeper calls it again.
cat >"$WORK/gdb" <<END
set pagination off
set \$orig_rax = -1
set \$call = \$rip - 2
set \$saved_rip = \$rip
set \$saved_rdi = \$rdi
set \$saved_rsi = \$rsi
set \$saved_rdx = \$rdx
set \$saved_r10 = \$r10
source $WORK/calls
set \$rip = \$saved_rip
set \$rdi = \$saved_rdi
set \$rsi = \$saved_rsi
set \$rdx = \$saved_rdx
set \$r10 = \$saved_r10
set \$rax = -4
detach
END
timeout 60 gdb -nx -batch -p "$keeper" -x "$WORK/gdb" >"$WORK/gdb.out" 2>"$WORK/gdb.err" || fail "gdb: $(<"$WORK/gdb.err")"
awk 'NF == 3 && $2 ~ /^-?[0-9]+$/ { print }' "$WORK/gdb.out" >"$WORK/answers"
cat "$WORK/answers"
[[ $(wc -l <"$WORK/answers") == $(grep -c ^stepi "$WORK/calls") ]] || fail "not every call was made: $(<"$WORK/gdb.out")"
awk '$2 != $3 { print "FAIL: " $0; bad = 1 } END { exit bad }' "$WORK/answers"

# The keeper still does its work.
exec {end}>&-
wait "$host" || fail "the host ends with $?"
is_over()
{
	[[ ! -e /proc/$keeper && ! -e /proc/$exporter ]]
}
poll_until 10 is_over || fail "keeper or exporter are left"
[[ ! -s $WORK/host.err ]] || fail "$(<"$WORK/host.err")"
