#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The kernel made a profiled program non-dumpable, so a process of the same user may not read the program. Such a
# process gets nothing from the program's exporter either: the exporter is non-dumpable from its first instruction on,
# and a process that listens in place of the exporter gets no data.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash
# shellcheck source=test/common/exporter.bash
source test/common/exporter.bash

has_nobody || skip 'needs root, and a build that others may read'
[[ -z ${TEST_EMULATOR:-} ]] || skip 'the exporter is a script here, which cannot be executed from memory'
# A python3 that other users may execute.
readonly PYTHON=/usr/bin/python3
[[ -x $PYTHON ]] || skip "$PYTHON is not there"
readonly NOBODY=65534
object=$SO
readonly AS_NOBODY=(setpriv --reuid="$NOBODY" --regid="$NOBODY" --clear-groups --inh-caps=-all --bounding-set=-all)
readonly AS_POWERLESS_ROOT=(setpriv --inh-caps=-all --bounding-set=-all)
chmod 755 "$WORK"
mkdir -m 777 "$WORK/profiles"

# host NAME MODE USER [VARIABLE=VALUE]... [COMMAND...]: starts it by the command. Sets HOST_PID; its output is in
# $WORK/NAME.out.
host()
{
	local name=$1 mode=$2 user=$3

	shift 3
	mkfifo "$WORK/$name.in"
	env SPANPROF_PROFILE=always SPANPROF_OUTPUT_DIR="$WORK/profiles" \
		SPANPROF_BASIC_AUTH_PASSWORD=no-word-for-others "$@" env LD_PRELOAD="$object" \
		"$HOSTS/beside" "$mode" "$user" <"$WORK/$name.in" >"$WORK/$name.out" 2>"$WORK/$name.err" &
	STARTED+=("$!")
	disown "$!"
	exec {steps}>"$WORK/$name.in"
	poll_until 20 test -s "$WORK/$name.out" || fail "$name: the program does not start"
	HOST_PID=$(sed -n 1p "$WORK/$name.out")
}

has_exporter()
{
	EXPORTER_PID=$(exporter_of "$1")
}

# A worker has its parent's exporter until it changes its user.
has_nobodys_exporter()
{
	has_exporter "$1" && grep -q "^Uid:[^0-9]*$NOBODY\b" "/proc/$EXPORTER_PID/status"
}

has_lines()
{
	(($(wc -l <"$2") == $1))
}

# readable PID WHO...: which files of the process that user can read.
readable()
{
	local pid=$1

	shift
	# shellcheck disable=SC2016
	"$@" bash -c 'for file in environ maps mem; do : <"/proc/$0/$file" && echo -n "$file "; done 2>/dev/null
		readlink "/proc/$0"/fd/0 && echo -n fd; true' "$pid" 2>/dev/null
}

for user in "$NOBODY" 0; do
	who=("${AS_NOBODY[@]}")
	((user != 0)) || who=("${AS_POWERLESS_ROOT[@]}")
	host "hidden$user" hidden "$user"
	poll_until 20 has_exporter "$HOST_PID" || fail "hidden$user: no exporter"
	[[ -z $(readable "$HOST_PID" "${who[@]}") ]] || fail "hidden$user: the program itself can be read"
	got=$(readable "$EXPORTER_PID" "${who[@]}")
	[[ -z $got ]] || fail "hidden$user: of the exporter can be read: $got"
	grep -q '^Seccomp:.*2$' "/proc/$EXPORTER_PID/status" || fail "hidden$user: the exporter has no filter over itself"
	kill -9 "$HOST_PID"

	# A program in place of the exporter writes down its own dumpable flag when it begins.
	object=$(object_with "$WORK/first$user" "$HOSTS/beside")
	host "first$user" hidden "$user" SPANPROF_STATUS_FILE="$WORK/profiles/first$user"
	object=$SO
	poll_until 20 test -s "$WORK/profiles/first$user" || fail "first$user: the program in place of the exporter did not begin"
	[[ $(sort -u "$WORK/profiles/first$user") == 0 ]] || fail "first$user: the exporter begins as a process that can be read"
	kill -9 "$HOST_PID"
done

# A process that can be read until the program makes itself unreadable.
host later later "$NOBODY" "${AS_NOBODY[@]}"
poll_until 20 has_exporter "$HOST_PID" || fail "later: no exporter"
[[ $(readable "$EXPORTER_PID" "${AS_NOBODY[@]}") == *environ* ]] || fail 'later: this test cannot tell'
echo >&"$steps"
cannot_be_read()
{
	[[ -z $(readable "$EXPORTER_PID" "${AS_NOBODY[@]}") ]]
}
poll_until 5 cannot_be_read || fail "later: the exporter does not follow: $(readable "$EXPORTER_PID" "${AS_NOBODY[@]}")"
kill -9 "$HOST_PID"

# Listens in place of an exporter, which it ends, and prints the messages that it gets.
cat >"$WORK/squat.py" <<'END'
import ctypes, os, signal, socket, sys, time
exporter, name, way = int(sys.argv[1]), sys.argv[2], sys.argv[3]
proof = open(f'/proc/{exporter}/cmdline').read().split('\0')[-2]
if way == 'name':
    ctypes.CDLL(None).prctl(15, proof.encode())  # PR_SET_NAME
if way == 'argument' and len(sys.argv) < 5:
    os.execv(sys.executable, [sys.executable, *sys.argv, proof])
os.kill(exporter, signal.SIGKILL)
listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
for _ in range(2000):
    try:
        listener.bind('\0' + name)
        break
    except OSError:
        time.sleep(0.005)
listener.listen(10)
listener.settimeout(20)
print('listens', flush=True)
connection, _ = listener.accept()
data, more, _, _ = connection.recvmsg(64, 1024)
print('got', len(data), 'bytes,', len(more), 'messages with descriptors', flush=True)
END
for way in plain name argument; do
	before=$(grep -o '@spanprof-[^ ]*' /proc/net/unix | sort)
	host "squat$way" workers "$NOBODY"
	poll_until 20 has_nobodys_exporter "$HOST_PID" || fail "$way: no exporter"
	first=$EXPORTER_PID
	name=$(comm -13 <(echo "$before") <(grep -o "@spanprof-[^ ]*-$NOBODY" /proc/net/unix | sort) | tail -1)
	[[ -n $name ]] || fail "$way: the exporter does not listen"
	"${AS_NOBODY[@]}" "$PYTHON" "$WORK/squat.py" "$first" "${name#@}" "$way" >"$WORK/$way.got" 2>&1 &
	STARTED+=("$!")
	disown "$!"
	poll_until 20 grep -q listens "$WORK/$way.got" || fail "$way: $(<"$WORK/$way.got")"
	echo >&"$steps"
	poll_until 30 grep -q got "$WORK/$way.got" || fail "$way: nobody came: $(<"$WORK/$way.got")"
	grep -q 'got 0 bytes, 0 messages' "$WORK/$way.got" || fail "$way: $(<"$WORK/$way.got")"
	# The worker that joined it gets an exporter of its own.
	poll_until 20 has_lines 2 "$WORK/squat$way.out" || fail "$way: no second worker"
	worker=$(tail -1 "$WORK/squat$way.out")
	poll_until 20 has_nobodys_exporter "$worker" || fail "$way: worker $worker has no exporter: $(cat "$WORK/squat$way.err")"
	# shellcheck disable=SC2046
	kill -9 $(<"$WORK/squat$way.out")
done
