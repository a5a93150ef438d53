#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016
# Ordinary programs notice nothing: same output, same messages, same exit status, with the default settings (then
# profiling never starts) and when every process is profiled from its start. With profiling, the descriptors,
# environment and signal masks at each program's start and end are the same as well, and no call that the kernel
# restarts fails with EINTR because of us. The short form of "make corpus-neutral".
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash
# shellcheck source=test/corpus/compare.bash
source test/corpus/compare.bash

need strace ls grep sed awk tar gzip python3 perl git find sort env curl true

readonly DATA=$WORK/data
declare -A PROGRAM=(
	[sh]='sh -c "for i in 1 2 3; do echo \$i; done | while read -r n; do echo got \$n; done; exit 9"'
	[ls]='ls -lR . missing'
	[grep]='grep -rn line folder lines; grep -c 7 lines missing'
	[sed]='sed -n "s/line \([0-9]*\)5/\1/p" lines'
	[awk]='awk "{ n += \$2 } END { print n; exit 4 }" lines'
	[tar]='tar cf - --sort=name --mtime=@0 --owner=0 --group=0 . | tar tvf -'
	[gzip]='gzip -n -9 <lines | gzip -dc; echo broken | gzip -d'
	[python3]='python3 -S -c "import sys, threading
t = threading.Thread(target=lambda: print(sum(range(20000000))))
t.start(); t.join(); sys.stderr.write(\"bye\n\"); sys.exit(5)"'
	[perl]='perl -e "my \$n = 0; \$n += \$_ for 1..200000; print \"\$n\n\"; warn \"careful\n\"; exit 6"'
	[git]='git init -q -b main repo && cd repo && cp ../lines . && git add lines &&
		git commit -q -m first && git log -p --stat | sed -n 1,50p && git status --short && git fsck'
	[find]='find . -type f -size +0 | sort | xargs cat | wc; find missing'
	[sort]='sort -rn -k2 --parallel=2 lines; sort missing'
	[env]='env -u LD_PRELOAD -u OBSERVED KEPT=1 env | grep -v ^SPANPROF_'
	[curl]='curl -sS "file://$PWD/lines" -o copy; cmp copy lines && curl -s http://127.0.0.1:1/'
	[true]='true'
)

fresh_data()
{
	rm -rf "$DATA"
	mkdir -p "$DATA/folder"
	seq -f 'line %.0f' 1 2000 >"$DATA/lines"
	echo 'one line' >"$DATA/folder/small"
	ln -s lines "$DATA/link"
	touch -d @1700000000 "$DATA/lines" "$DATA/folder/small" "$DATA/folder" "$DATA"
	touch -h -d @1700000000 "$DATA/link"
}

export HOME=$WORK GIT_AUTHOR_DATE=@1700000000 GIT_COMMITTER_DATE=@1700000000
export GIT_AUTHOR_NAME=t GIT_COMMITTER_NAME=t EMAIL=t@example.com GIT_CONFIG_NOSYSTEM=1

# With the default settings.
idle()
{
	local name=$1

	fresh_data
	run "$name" bash -c "cd '$DATA' && ${PROGRAM[$name]}"
	fresh_data
	run_under "$name.idle" bash -c "cd '$DATA' && ${PROGRAM[$name]}"
	expect_same "$name" "$name.idle" out err rc
}

# observed NAME KIND: runs it in the environment of compare.bash.
observed()
{
	fresh_data
	"under_$2" "$1"
	run "$1.$2" "${UNDER[@]}" bash -c "cd '$DATA' && ${PROGRAM[$1]}"
}

profiled()
{
	local name=$1 kind

	for kind in plain profiled; do
		observed "$name" "$kind"
		seen "$name.$kind" >"$WORK/$name.$kind.sorted"
	done
	expect_same "$name.plain" "$name.profiled" out err rc sorted
}

traced()
{
	local name=$1

	observed "$name" traced
	expect_same "$name.plain" "$name.traced" out rc
	interruptions "$name" >"$WORK/$name.eintr"
	grep -qx 'ours 0' "$WORK/$name.eintr" || fail "$name: $(cat "$WORK/$name.eintr")"
}

for name in "${!PROGRAM[@]}"; do
	idle "$name"
	profiled "$name"
done
# Otherwise the test would prove nothing.
[[ $(grep -c 'ends with' "$WORK/git.plain.seen") -ge 5 ]] || fail "nobody was observed"
profiles=$(find "$WORK"/*.profiles -name '*.pb.gz' | wc -l)
((profiles >= ${#PROGRAM[@]})) || fail "$profiles profiles"

# The output of strace 6.1 for a select() and an epoll_wait() that a timer's signal makes fail, and for a read() that
# the kernel restarts: the test would notice them. Then a call that fails even without us, and the output if our
# handler did not restart calls.
cat >"$WORK/known.trace" <<'TRACE'
15650 pselect6(0, NULL, NULL, NULL, {tv_sec=1, tv_nsec=0}, NULL) = ? ERESTARTNOHAND (To be restarted if no handler)
15650 --- SIGURG {si_signo=SIGURG, si_code=SI_TIMER, si_timerid=0, si_overrun=0, si_int=1, si_ptr=0x1} ---
15650 rt_sigreturn({mask=[]})           = -1 EINTR (Interrupted system call)
15650 epoll_wait(3, 0x7ffeff2936b4, 1, 1000) = -1 EINTR (Interrupted system call)
15650 --- SIGURG {si_signo=SIGURG, si_code=SI_TIMER, si_timerid=0, si_overrun=0, si_int=1, si_ptr=0x1} ---
15650 rt_sigreturn({mask=[]})           = -1 EINTR (Interrupted system call)
15650 read(4,  <unfinished ...>
15662 clock_nanosleep(CLOCK_REALTIME, 0, {tv_sec=0, tv_nsec=100000000},  <unfinished ...>
15650 <... read resumed>0x7ffeff2936ab, 1) = ? ERESTARTSYS (To be restarted if SA_RESTART is set)
15650 --- SIGURG {si_signo=SIGURG, si_code=SI_TIMER, si_timerid=0, si_overrun=0, si_int=1, si_ptr=0x1} ---
15650 rt_sigreturn({mask=[]})           = 0
15650 read(4, "x", 1)                   = 1
15700 pselect6(0, NULL, NULL, NULL, NULL, NULL) = ? ERESTARTNOHAND (To be restarted if no handler)
15700 --- SIGURG {si_signo=SIGURG, si_code=SI_TIMER, si_timerid=0, si_overrun=0, si_int=1, si_ptr=0x1} ---
15700 --- SIGCHLD {si_signo=SIGCHLD, si_code=CLD_EXITED, si_pid=15701, si_uid=0, si_status=0, si_utime=0, si_stime=0} ---
15700 rt_sigreturn({mask=[]})           = 0
15700 rt_sigreturn({mask=[]})           = -1 EINTR (Interrupted system call)
15700 read(4, 0x7ffeff2936ab, 1)        = ? ERESTARTSYS (To be restarted if SA_RESTART is set)
15700 --- SIGURG {si_signo=SIGURG, si_code=SI_TIMER, si_timerid=0, si_overrun=0, si_int=1, si_ptr=0x1} ---
15700 rt_sigreturn({mask=[]})           = -1 EINTR (Interrupted system call)
TRACE
[[ $(interruptions known | head -4 | tr '\n' ' ') == 'signals 5 ours 1 waits 2 others 1 ' ]] ||
	fail "EINTR: $(interruptions known)"

signals=0
if strace -o /dev/null true 2>/dev/null; then
	for name in sh tar gzip python3 perl git sort curl; do
		traced "$name"
		signals=$((signals + $(sed -n 's/^signals //p' "$WORK/$name.eintr")))
	done
	((signals > 0)) || fail "no signal of ours below strace"
fi
echo "${#PROGRAM[@]} programs, $profiles profiles; $signals signals below strace, no EINTR"
