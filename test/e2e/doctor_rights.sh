#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2119
# spanprof-doctor examines processes of its own user, and as root any process in its own root folder. If the user may
# not, the doctor says who should run it and where. It opens no file that a process names with root's rights.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash
# shellcheck source=test/install/root.bash
source test/install/root.bash

((EUID == 0)) || skip 'only root has more rights to lose'
need setpriv chroot busybox unshare strace
readonly NOBODY=65534 OTHER=65533
readonly AS_NOBODY=(setpriv --reuid "$NOBODY" --regid "$NOBODY" --clear-groups)
readonly BIN=$WORK/bin
readonly DOCTOR=$BIN/spanprof-doctor
readonly SECRET=$WORK/secret
chmod 755 "$WORK"
mkdir "$BIN"
cp build/spanprof-{run,report} scripts/spanprof-doctor "$BIN"
install -m 600 /dev/null "$SECRET"
echo '{"samples": {}, "state": "root-only-word"}' >"$SECRET"

# target COMMAND...: a process to examine, which is about to become a program called sleep.
target()
{
	"$@" >/dev/null 2>&1 </dev/null &
	HOST_PID=$!
	STARTED+=("$HOST_PID")
	disown "$HOST_PID"
	poll_until 20 grep -q '^Name:.*\(sleep\|busybox\)' "/proc/$HOST_PID/status" || fail "no target"
}

# refused NAME WORDS COMMAND...: the doctor refuses, and says which user should run it.
refused()
{
	local name=$1 words=$2

	shift 2
	run "$name" "$@" "$DOCTOR" "$HOST_PID"
	kill "$HOST_PID"
	expect_rc "$name" 125
	grep -q "$words" "$WORK/$name.err" || fail "$name: not \"$words\": $(<"$WORK/$name.err")"
	[[ ! -s $WORK/$name.out ]] || fail "$name: $(<"$WORK/$name.out")"
}

target "${AS_NOBODY[@]}" sleep 300
refused user "it is a process of user $NOBODY: run this as that user or as root" setpriv --reuid "$OTHER" --regid "$OTHER" --clear-groups
# If the program has had another user, being its present user is not enough: only root may examine it.
cat >"$WORK/hide.c" <<-END
	#include <sys/prctl.h>
	#include <unistd.h>
	int main(void) { prctl(PR_SET_NAME, "sleep"); prctl(PR_SET_DUMPABLE, 0); return pause(); }
END
gcc -o "$WORK/hide" "$WORK/hide.c"
target "${AS_NOBODY[@]}" "$WORK/hide"
refused hidden 'its own user may not examine it: run this as root' "${AS_NOBODY[@]}"
target "${AS_NOBODY[@]}" "$WORK/hide"
refused powerless 'root needs CAP_SYS_PTRACE' setpriv --bounding-set=-sys_ptrace
target "${AS_NOBODY[@]}" "$WORK/hide"
run root "$DOCTOR" "$HOST_PID"
kill "$HOST_PID"
expect_rc root 1
grep -q '^  WRONG  LD_PRELOAD is not set' "$WORK/root.out" || fail "$(<"$WORK/root.out")"

# A process with another root, other mounts or pids: the same path or id means something else there.
readonly JAIL=$WORK/jail
mkdir -p "$JAIL"
root_add "$JAIL" "$(type -P busybox)" /bin/sleep
target chroot "$JAIL" /bin/sleep 300
refused jail 'runs in another container or root: run this in there' env
if unshare -m true 2>/dev/null; then
	target unshare -m sleep 300
	refused mounts 'runs in another container or root: run this in there' env
fi

# Root must not open a file that another user's process names, in any variable; the doctor run as that user cannot
# open it. A user may name his own files: that gives him nothing.
names=(SPANPROF_STATUS_FILE SPANPROF_OUTPUT_DIR SPANPROF_AUTH_TOKEN_FILE SPANPROF_TLS_CA_FILE)
variables=("LD_PRELOAD=$SECRET/libspanprof.so")
for name in "${names[@]}"; do
	variables+=("$name=$SECRET")
done
target "${AS_NOBODY[@]}" env "${variables[@]}" sleep 300
run names strace -f -e trace=%file -o "$WORK/names.calls" "$DOCTOR" "$HOST_PID"
kill "$HOST_PID"
expect_rc names 1
grep -q "run this as user $NOBODY" "$WORK/names.out" || fail "$(<"$WORK/names.out")"
grep -q '/environ"' "$WORK/names.calls" || fail "nothing was traced"
if grep "\"$SECRET" "$WORK/names.calls" >&2 || grep root-only-word "$WORK"/names.{out,err} >&2; then
	fail "what the process names was touched"
fi

# If a program has more rights than its caller, its environment comes from the caller.
cp "$(type -P sleep)" "$WORK/sleep"
chmod 4755 "$WORK/sleep"
target "${AS_NOBODY[@]}" env SPANPROF_RATE=x "$WORK/sleep" 300
if grep -q '^Uid:.[0-9]*.0.' "/proc/$HOST_PID/status"; then
	run secure "$DOCTOR" "$HOST_PID"
	grep -q '^  WRONG .*more rights' "$WORK/secure.out" || fail "$(<"$WORK/secure.out")"
fi
kill "$HOST_PID"

# Reading an environment is bounded, however large it is.
mapfile -t many < <(seq -f 'V%.0f=1' 20000)
target env -i "${many[@]}" "$(type -P sleep)" 300
run many "$DOCTOR" "$HOST_PID"
kill "$HOST_PID"
grep -q '^  WRONG  LD_PRELOAD is not set' "$WORK/many.out" || fail "$(<"$WORK/many.out")"
