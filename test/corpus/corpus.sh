#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Programs of Debian, unmodified, at 1,000 Hz from their start: what they print and how they end is as
# without us, and at least 99.9 % of their samples are unwound to the beginning of their thread. One
# line per program; servers are told to end by themselves, which their exit status shows.
# Usage: corpus.sh [NAME]...
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3
readonly DATA=$WORK/data
readonly ROOTED_MIN=99.9
declare -i failures=0

# --- Programs that end by themselves ---------------------------------------------------------------

declare -A PROGRAM=(
	[python3]='python3 -S -c "
import json, re, hashlib, zlib
d = {str(i): [i] * 20 for i in range(20000)}
for _ in range(4): s = json.dumps(d)
print(len(re.findall(\"[0-9]+\", s)), hashlib.sha256(s.encode()).hexdigest(), len(zlib.compress(s.encode())))"'
	[perl]='perl -e "my %h; \$h{\$_ % 1000} .= \$_ for 1..800000; my \$n = 0; for (sort keys %h) { \$n += () = \$h{\$_} =~ /7/g } print \"\$n\n\""'
	[php]='php -r "set_time_limit(30); for (\$i = 0, \$a = []; \$i < 1500000; \$i++) \$a[\$i % 999] = md5(\$i); sort(\$a); echo count(\$a), md5(implode(\$a)), \"\n\";"'
	[php_time_limit]='php -r "set_time_limit(1); for (;;) { }" 2>&1 | head -3'
	[bash]='bash -c "n=0; for ((i = 0; i < 250000; i++)); do n=\$((n + i % 7)); done; echo \$n"'
	[bash_900]='bash -c "for ((i = 0; i < 300; i++)); do echo \$i | cat | wc -c; done | sort | uniq -c"'
	[git]='git clone -q base.git copy && cd copy && git log --stat | md5sum && git gc -q --aggressive && git fsck --full && git status --short'
	[gzip]='gzip -9 -n -c big | md5sum'
	[xz]='xz -T2 -3 -c big | xz -dc | md5sum'
	[openssl]='openssl genrsa 3072 2>/dev/null | wc -l | grep -c .; openssl dgst -sha256 big; openssl enc -aes-256-gcm -k x big 2>&1 | head -1; openssl enc -aes-256-cbc -pbkdf2 -S 0000000000000000 -k x -in big | md5sum'
	[sqlite3]='sqlite3 :memory: "create table t(a, b); with recursive c(x) as (select 1 union all select x + 1 from c where x < 300000) insert into t select x, x * 7919 % 10007 from c; create index i on t(b); select b, count(*), sum(a) from t group by b order by 3 desc limit 5;"'
	[gcc]='gcc -O2 -c -o source.o source.c && md5sum <source.o'
	[clang]='clang -O2 -c -o source.o source.c && md5sum <source.o'
	[sort]='sort -S 40M --parallel=2 lines | md5sum'
	[coreutils]='md5sum big; sha512sum big; wc lines; cut -c1-8 lines | uniq | tac | head -100000 | nl | md5sum; base64 big | md5sum; factor 1000000000000000003 1000000000000000009'
	[tar]='tar cf - --sort=name --mtime=@0 --owner=0 --group=0 base.git lines | tar xOf - lines | md5sum'
	[curl]='curl -s "file://$PWD/big" | md5sum; curl -s http://127.0.0.1:1/'
	[node]='node -e "let m = new Map(); for (let i = 0; i < 3e6; i++) m.set(i % 9973, (m.get(i % 9973) || 0) + i); console.log(m.size, [...m.values()].reduce((a, b) => a + b))"'
)
# Their code is partly made while they run: such frames have no unwind tables.
readonly COMPILED_AT_RUN_TIME=" node "

make_data()
{
	local i

	mkdir -p "$DATA"
	cd "$DATA"
	python3 - <<-'PYTHON'
		import random
		random.seed(1)
		with open("lines", "w") as file:
		    for _ in range(10_000_000):
		        file.write("%09d\n" % random.randrange(10**9))
		with open("big", "wb") as file:
		    file.write(bytes(random.choices(b"abcdefgh \n", k=12_000_000)))
		with open("source.c", "w") as file:
		    for i in range(700):
		        file.write("int f%d(int n) { int s = 0; for (int i = 0; i < n; i++)"
		                   " s += i %% %d ? i * %d : s >> 3; return s; }\n" % (i, i + 2, i))
	PYTHON
	git init -q --bare -b main base.git
	git init -q -b main first
	for i in {1..40}; do
		seq $((i * 1000)) $((i * 1400)) >"first/file$((i % 7))"
		git -C first add . && git -C first commit -q -m "change $i"
	done
	git -C first push -q ../base.git main
	rm -rf first
}

export HOME=$WORK GIT_AUTHOR_DATE=@1700000000 GIT_COMMITTER_DATE=@1700000000
export GIT_AUTHOR_NAME=t GIT_COMMITTER_NAME=t EMAIL=t@example.com GIT_CONFIG_NOSYSTEM=1
export GIT_COMMITTER_EMAIL=t@example.com GIT_AUTHOR_EMAIL=t@example.com

# The variables that every profiled program gets.
PROFILED=(SPANPROF_PROFILE=always SPANPROF_SAMPLE_RATE=1000 SPANPROF_FLUSH_TIMEOUT=30s)

bad()
{
	echo "FAIL: $*"
	failures+=1
}

# judge NAME: how many of the samples are rooted.
judge()
{
	local name=$1 samples rooted

	if [[ -z $(profiles_in "$WORK/$name.profiles") ]]; then
		bad "$name: nothing was profiled"
		return
	fi
	report "$WORK/$name.profiles" "$WORK/$name.json"
	samples=$(ask "$WORK/$name.json" 'd["total"]["samples"]')
	rooted=$(ask "$WORK/$name.json" 'round(100 - 100 * sum(f["total_samples"] for f in d["functions"]
		if f["function"] == "[incomplete]") / max(d["total"]["samples"], 1), 3)')
	printf '%-16s %7d samples, %7.3f %% rooted, %s profiles\n' "$name" "$samples" "$rooted" \
		"$(profiles_in "$WORK/$name.profiles" | wc -l)"
	[[ $COMPILED_AT_RUN_TIME == *" $name "* ]] ||
		awk -v a="$rooted" -v b="$ROOTED_MIN" 'BEGIN { exit !(a >= b) }' ||
		bad "$name: $rooted % of $samples samples are rooted"
	rm -rf "${WORK:?}/$name.profiles"
}

plain_program()
{
	local name=$1 words=${PROGRAM[$1]}

	rm -rf "$DATA/copy"
	run "$name.plain" bash -c "cd '$DATA' && $words"
	rm -rf "$DATA/copy"
	mkdir "$WORK/$name.profiles"
	# Not the shell that is only here to start it.
	run "$name" bash -c "cd '$DATA' && export LD_PRELOAD='$SO' ${PROFILED[*]} \
		SPANPROF_OUTPUT_DIR='$WORK/$name.profiles' && $words"
	for kind in out err rc; do
		cmp -s "$WORK/$name.plain.$kind" "$WORK/$name.$kind" || {
			diff "$WORK/$name.plain.$kind" "$WORK/$name.$kind" | head -5
			bad "$name: $kind is not as without the profiler"
		}
	done
	judge "$name"
}

# --- Servers ---------------------------------------------------------------------------------------

# Who starts the servers that refuse to be root's: a command, not profiled itself.
AS=()

# serve NAME COMMAND...: starts it profiled in the background; SERVER is its process.
serve()
{
	local name=$1

	shift
	mkdir -p "$WORK/$name.profiles"
	chmod 777 "$WORK/$name.profiles"
	"${AS[@]}" env LD_PRELOAD="$SO" "${PROFILED[@]}" SPANPROF_OUTPUT_DIR="$WORK/$name.profiles" \
		"$@" >"$WORK/$name.out" 2>"$WORK/$name.err" </dev/null &
	SERVER=$!
	STARTED+=("$SERVER")
}

# ended NAME STATUS: the server ends, with that status.
ended()
{
	local rc=0

	wait "$SERVER" || rc=$?
	[[ $rc == "$2" ]] || {
		tail -5 "$WORK/$1.err" "$WORK/$1.out"
		bad "$1: exit status $rc, not $2"
	}
	judge "$1"
}

server_redis()
{
	serve redis redis-server --port 0 --unixsocket "$WORK/redis.sock" --dir "$WORK" --save ''
	poll_until 20 redis-cli -s "$WORK/redis.sock" ping >/dev/null || bad "redis: no answer"
	redis-benchmark -s "$WORK/redis.sock" -q -n 60000 -c 20 -t set,get,lpush,zadd >"$WORK/redis.bench"
	redis-cli -s "$WORK/redis.sock" bgsave >/dev/null
	redis-benchmark -s "$WORK/redis.sock" -q -n 30000 -c 20 -t incr,sadd >>"$WORK/redis.bench"
	[[ $(grep -c 'requests per second' "$WORK/redis.bench") -ge 6 ]] || bad "redis: benchmark"
	[[ $(redis-cli -s "$WORK/redis.sock" info errorstats | grep -c errorstat_) == 0 ]] || bad "redis: errors"
	poll_until 20 test -s "$WORK/dump.rdb" || bad "redis: BGSAVE"
	redis-cli -s "$WORK/redis.sock" shutdown nosave || true
	ended redis 0
}

server_memcached()
{
	chmod 777 "$WORK"
	serve memcached memcached -u nobody -s "$WORK/memcached.sock" -a 777 -t 2
	poll_until 20 test -S "$WORK/memcached.sock" || bad "memcached: no socket"
	python3 - "$WORK/memcached.sock" <<-'PYTHON' || bad "memcached: wrong answers"
		import socket, sys
		s = socket.socket(socket.AF_UNIX)
		s.connect(sys.argv[1])
		f = s.makefile("rb")
		for i in range(40000):
		    s.sendall(b"set k%d 0 0 4\r\nabcd\r\nget k%d\r\n" % (i % 999, i % 999))
		    assert f.readline() == b"STORED\r\n"
		    assert [f.readline() for _ in range(3)][1:] == [b"abcd\r\n", b"END\r\n"]
	PYTHON
	kill -TERM "$SERVER"
	ended memcached 0
}

server_nginx()
{
	cat >"$WORK/nginx.conf" <<-EOF
		daemon off; worker_processes 2; pid $WORK/nginx.pid; error_log $WORK/nginx.log;
		thread_pool default threads=4;
		events { }
		http {
			access_log off; client_body_temp_path $WORK/nginx.b; proxy_temp_path $WORK/nginx.p;
			fastcgi_temp_path $WORK/nginx.f; uwsgi_temp_path $WORK/nginx.u; scgi_temp_path $WORK/nginx.s;
			server { listen unix:$WORK/nginx.sock; root $DATA; aio threads; gzip on; gzip_types *; }
		}
	EOF
	chmod 777 "$WORK"
	serve nginx nginx -c "$WORK/nginx.conf"
	poll_until 20 test -S "$WORK/nginx.sock" || bad "nginx: no socket"
	wanted=$(md5sum <"$DATA/big")
	for round in 1 2 3 4 5 6; do
		[[ $(curl -s --compressed --unix-socket "$WORK/nginx.sock" http://x/big | md5sum) == "$wanted" ]] ||
			bad "nginx: answer $round"
		if ((round == 3)); then
			kill -HUP "$SERVER"
			sleep 1
		fi
	done
	kill -QUIT "$SERVER"
	ended nginx 0
	! grep -E 'alert|emerg|signal' "$WORK/nginx.log" || bad "nginx: its log"
}

server_postgres()
{
	local bin

	bin=$(dirname "$(find /usr/lib/postgresql /usr/local -name initdb 2>/dev/null | head -1)")
	command -v "$bin/initdb" >/dev/null || { echo "postgres         not here"; return; }
	id postgres >/dev/null 2>&1 || { echo "postgres         no user for it"; return; }
	install -d -o postgres "$WORK/pg" "$WORK/pg.run"
	AS=(setpriv --reuid postgres --clear-groups)
	"${AS[@]}" "$bin/initdb" -D "$WORK/pg" -A trust >/dev/null
	# It blocks SIGURG and reads it from a signalfd: its latches (latch.c, since version 14).
	serve postgres env SPANPROF_SIGNAL=RTMIN+3 "$bin/postgres" -D "$WORK/pg" -k "$WORK/pg.run" -c listen_addresses=
	AS=()
	poll_until 30 "$bin/pg_isready" -q -h "$WORK/pg.run" || bad "postgres: not ready"
	"$bin/pgbench" -h "$WORK/pg.run" -U postgres -i -q -s 2 postgres 2>/dev/null || bad "postgres: no tables"
	"$bin/pgbench" -h "$WORK/pg.run" -U postgres -c 4 -t 400 postgres >"$WORK/pgbench" 2>&1 || bad "postgres: pgbench"
	grep -q 'actually processed: 1600/1600' "$WORK/pgbench" || bad "postgres: $(tail -3 "$WORK/pgbench")"
	kill -INT "$SERVER"
	ended postgres 0
	! grep -E 'PANIC|terminated by signal' "$WORK/postgres.err" || bad "postgres: its log"
}

server_mariadb()
{
	chmod 777 "$WORK"
	mkdir -m 777 "$WORK/maria"
	mariadb-install-db --no-defaults --datadir="$WORK/maria" --auth-root-authentication-method=normal \
		--user=root >/dev/null 2>&1
	serve mariadb mariadbd --no-defaults --datadir="$WORK/maria" --socket="$WORK/maria.sock" \
		--skip-networking --user=root --pid-file="$WORK/maria.pid"
	poll_until 40 mariadb-admin --no-defaults -S "$WORK/maria.sock" ping >/dev/null 2>&1 ||
		bad "mariadb: no answer"
	mariadb --no-defaults -S "$WORK/maria.sock" -N -e "create database t; use t; create table n(a int, b int);
		insert into n select seq, seq * 7919 % 10007 from seq_1_to_300000;
		select b, count(*), sum(a) from n group by b order by 3 desc, 1 limit 3" | md5sum
	mariadb-admin --no-defaults -S "$WORK/maria.sock" shutdown
	ended mariadb 0
}

# --- All of it -------------------------------------------------------------------------------------

# Servers give up their privileges.
chmod 755 "$WORK"
(make_data)
names=("$@")
if ((${#names[@]} == 0)); then
	mapfile -t names < <(printf '%s\n' "${!PROGRAM[@]}" redis memcached nginx postgres mariadb | sort)
fi
for name in "${names[@]}"; do
	if [[ -v PROGRAM[$name] ]]; then
		plain_program "$name"
	else
		"server_$name"
	fi
done
((failures == 0)) || fail "$failures"
