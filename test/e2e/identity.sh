#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Programs that change their identity while they are profiled: another user with or without its capabilities, another
# user namespace. They end as without us, and files that are written afterwards belong to the new user.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3 setpriv unshare capsh
((EUID == 0)) || skip "only root may become somebody else"
# The programs may become any user: all may write here.
chmod 755 "$WORK"
readonly PROFILES=$WORK/profiles
mkdir -m 777 "$PROFILES"
export SPANPROF_PROFILE=always SPANPROF_OUTPUT_DIR=$PROFILES
# All users may read the files that the programs load, even if the repository is in a folder of root's.
mkdir "$WORK/object"
cp "$SO" "$EXPORTER" "$WORK/object"
chmod -R a+rX "$WORK/object"
run_under()
{
	run "$1" LD_PRELOAD="$WORK/object/libspanprof.so" "${@:2}"
}
# If python3 is a script, it is another program that changes its user.
PYTHON=$(python3 -c 'import sys; print(sys.executable)')
readonly PYTHON

# same NAME COMMAND...: output, errors and exit status are the same as without the profiler.
same()
{
	local name=$1

	shift
	run "$name.plain" "$@"
	run_under "$name" "$@"
	expect_same "$name.plain" "$name" out err rc
}

readonly WHO='id; grep -E "^(Cap|NoNewPrivs|Seccomp:)" /proc/self/status; echo done'
same setpriv setpriv --reuid 65534 --regid 65534 --clear-groups sh -c "$WHO"
same setpriv_ambient setpriv --reuid 65534 --clear-groups --inh-caps +chown --ambient-caps +chown sh -c "$WHO"
same setpriv_bounding setpriv --bounding-set -sys_admin --inh-caps -all --no-new-privs sh -c "$WHO"
same capsh capsh --keep=1 --uid=65534 --caps=cap_chown+p -- -c "$WHO"
same capsh_user capsh --drop=cap_sys_admin --user=nobody -- -c "$WHO"
same unshare_user unshare -U sh -c "$WHO"
same unshare_root unshare -r sh -c "$WHO"
same unshare_mounts unshare -rm sh -c "$WHO"
same unshare_pids unshare -rpf sh -c "echo \$\$; $WHO"
same unshare_all unshare -rmpuin --fork --mount-proc sh -c "echo \$\$; $WHO"
for program in "su nobody -s /bin/sh -c" "runuser -u nobody -- sh -c" "chroot --userspec=65534:65534 / sh -c"; do
	command -v "${program%% *}" >/dev/null || {
		left_out "${program%% *} is not installed"
		continue
	}
	read -ra words <<<"$program"
	same "${words[0]}" "${words[@]}" "$WHO"
done

# The identities of a process's threads, each different one in a line.
readonly THREADS='
import ctypes, glob, os, re, sys, time
libc = ctypes.CDLL(None, use_errno=True)
def threads():
    texts = []
    for path in glob.glob("/proc/self/task/*/status"):
        with open(path) as file:
            texts.append(re.findall("(?:Uid|Gid|Groups|Cap...|NoNewPrivs):.*", file.read()))
    return texts
def only():
    now = threads()
    if len(now) != 1: sys.exit("not one thread: %s" % now)
    return now[0]
def work():
    end = time.thread_time() + 0.1
    while time.thread_time() < end: pass
'
readonly KEEP="$THREADS"'
work()
libc.prctl(8, 1, 0, 0, 0)
os.setgroups([65534]); os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)
print(only()); work()
class Header(ctypes.Structure): _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]
assert libc.capset(ctypes.byref(Header(0x20080522, 0)), (ctypes.c_uint32 * 6)()) == 0
print(only()); work()
os.seteuid(65534)
print(only(), ctypes.get_errno())
assert libc.setuid(12345) == -1
print(ctypes.get_errno(), only()); work()'
run keep.plain "$PYTHON" -S -c "$KEEP"
mkdir -m 777 "$WORK/keep"
run_under keep SPANPROF_OUTPUT_DIR="$WORK/keep" SPANPROF_UPLOAD_INTERVAL=200ms \
	SPANPROF_STATUS_FILE="$WORK/keep/status" "$PYTHON" -S -c "$KEEP"
expect_same keep.plain keep out err rc
expect_rc keep 0
report "$WORK/keep" "$WORK/keep.json"
expect "$WORK/keep.json" 'd["total"]["ns"] > 0.39e9'
expect "$WORK/keep/status" 'not any(d["loss"].values())'
[[ $(stat -c %u "$WORK/keep/status") == 65534 ]] || fail "the status file is not of the new user"
[[ $(stat -c %u "$(profiles_in "$WORK/keep" | tail -1)") == 65534 ]] || fail "nor is the last profile"

# Repeated changes, as in servers that act for their clients; and changes during a fork.
readonly BACK_AND_FORTH="$THREADS"'
for i in range(200):
    os.seteuid(65534); os.seteuid(0)
    if i % 50 == 0 and os.fork() == 0:
        os.setegid(65534); work(); print(only()[0]); sys.stdout.flush(); os._exit(0)
    if i % 50 == 0: os.wait()
print(only()[0], os.geteuid()); work()'
run forth.plain "$PYTHON" -S -c "$BACK_AND_FORTH"
run_under forth "$PYTHON" -S -c "$BACK_AND_FORTH"
expect_same forth.plain forth out err rc
expect_rc forth 0

# A worker changes its user and its master does not: both are profiled to their ends, each by an exporter with its
# rights.
readonly WORKER="$THREADS"'
pid = os.fork()
if pid == 0:
    work(); os.setgroups([]); os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)
    for i in range(4): work()
    sys.stdout.flush(); os._exit(0)
os.waitpid(pid, 0); work(); print(only()[0])'
run worker.plain "$PYTHON" -S -c "$WORKER"
mkdir -m 777 "$WORK/worker"
run_under worker SPANPROF_OUTPUT_DIR="$WORK/worker" "$PYTHON" -S -c "$WORKER"
# Samples of the worker that the first exporter has taken by then are lost, counted and reported.
sed -i '/^spanprof\[[0-9]*\]: [0-9]* samples* lost before a profile was made of .*$/d' "$WORK/worker.err"
expect_same worker.plain worker out err rc
expect_rc worker 0
report "$WORK/worker" "$WORK/worker.json"
expect "$WORK/worker.json" '0.3e9 < d["total"]["ns"] < 0.7e9'
[[ $(profiles_in "$WORK/worker" | xargs stat -c %u | sort -u | xargs) == "0 65534" ]] ||
	fail "not each as its user"

# In the middle of an upload to a server that reads the profile and never answers: the upload is cut off. The host
# goes on once the server has begun to read.
"$PYTHON" -S -c '
import socket, sys
listener = socket.socket(); listener.bind(("127.0.0.1", 0)); listener.listen(8)
with open(sys.argv[1] + ".new", "w") as file: file.write(str(listener.getsockname()[1]))
import os; os.rename(sys.argv[1] + ".new", sys.argv[1])
first = listener.accept()[0]; first.recv(1)
open(sys.argv[2], "w").close()
kept = [first]
while True: kept.append(listener.accept()[0])' "$WORK/silent.port" "$WORK/silent.has_it" &
STARTED+=("$!")
disown
poll_until 20 test -s "$WORK/silent.port" || fail "the silent server does not start"
readonly UPLOADING="$THREADS"'
while not os.path.exists(sys.argv[1]): work()
os.setresuid(65534, 65534, 65534)
print(only()[0])'
run uploading.plain "$PYTHON" -S -c "$UPLOADING" /
run_under uploading SPANPROF_UPLOAD_INTERVAL=200ms SPANPROF_FLUSH_TIMEOUT=0 SPANPROF_LOG_LEVEL=none \
	SPANPROF_SERVER_ADDRESS="http://127.0.0.1:$(<"$WORK/silent.port")" \
	"$PYTHON" -S -c "$UPLOADING" "$WORK/silent.has_it"
expect_same uploading.plain uploading out err rc
expect_rc uploading 0
