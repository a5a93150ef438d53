# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034,SC2016
# The waits of the programs of programs.bash: input that comes slowly, children, timers and other threads. Servers
# wait by themselves.

# slow [LINE]: prints the line, or numbers, for a second
SLOW='slow() { for i in {1..20}; do sleep 0.05; echo "${1-$i}"; done; }'

declare -A WAITING=(
	[python3]='slow | python3 -S -c "
import queue, select, subprocess, sys, threading, time
q = queue.Queue()
def work():
    while q.get() is not None:
        time.sleep(0.03)
t = threading.Thread(target=work)
t.start()
for line in sys.stdin:
    q.put(line)
    select.select([], [], [], 0.02)
subprocess.run([\"sleep\", \"0.2\"])
q.put(None)
t.join()
"'
	[perl]='slow | perl -e "while (<STDIN>) { select(undef, undef, undef, 0.03); system(\"sleep 0.03\") } wait"'
	[php]='slow | php -r "while (fgets(STDIN) !== false) { usleep(30000); } proc_close(proc_open(\"sleep 0.2\", [], \$p));"'
	[bash]='slow | bash -c "while read -r x; do sleep 0.03; done; read -t 0.2 x < <(sleep 0.3); sleep 0.3 & wait"'
	[git]='slow | git hash-object -w --stdin --path x -t blob >id; rm -rf copy; git clone -q --no-local base.git copy;
		git -C copy -c core.pager="sleep 0.3; cat" --paginate log >log; git -C copy -c alias.s="!sleep 0.3" s;
		GIT_EDITOR="sleep 0.3; true" git -C copy commit -q --allow-empty --amend'
	[gzip]='slow | gzip -c >slow.gz; (slow | gzip -c; sleep 0.2) | gzip -dc >slow.again'
	[xz]='slow | xz -T2 -c >slow.xz; xz -T2 -2 -c big >big.xz; (cat slow.xz; sleep 0.3) | xz -dc >slow.again'
	[openssl]='slow | openssl dgst -sha256 >digest; slow | openssl enc -aes-128-ctr -k x -pbkdf2 >slow.enc'
	[sqlite3]='slow "select hex(randomblob(9));" | sqlite3 :memory: >rows; sqlite3 lock.db "create table if not exists t(x);";
		(echo "begin exclusive;"; sleep 0.5; echo "commit;") | sqlite3 lock.db &
		sleep 0.1; sqlite3 -cmd ".timeout 900" lock.db "insert into t values(1);"; wait'
	[gcc]='slow "int f(void);" | gcc -x c -c -o slow.o -; gcc -O2 -pipe -I$ROOT -std=gnu11 -D_GNU_SOURCE= -c -o s.o $ROOT/sampler/span/span.c'
	[clang]='slow "int f(void);" | clang -x c -c -o slow.o -'
	[node]='slow | node -e "process.stdin.on(\"data\", () => {}); setInterval(() => {}, 30).unref();
		require(\"child_process\").execFileSync(\"sleep\", [\"0.2\"]); require(\"fs\").readFileSync(\"/proc/self/maps\")"'
	[java]='slow | java $CORPUS/loads/Waits.java'
)
