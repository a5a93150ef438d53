# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Debian's servers, each on a socket in $WORK, started by start_NAME and told to end by stop_NAME, which checks the
# exit status. UNDER has the words with which they are started: variables, strace. load_NAME ROUND makes the requests
# of a client; its output does not depend on time.

UNDER=(env)
# The words that start a server which refuses to run as root.
AS=()
# The words that start pgbench and redis-benchmark.
CLIENT=()
SERVER=0

# serve NAME COMMAND...
serve()
{
	local name=$1

	shift
	"${AS[@]}" "${UNDER[@]}" "$@" >"$WORK/$name.out" 2>"$WORK/$name.err" </dev/null &
	SERVER=$!
	STARTED+=("$SERVER")
}

# ended NAME STATUS: waits until the server ends with that status.
ended()
{
	local rc=0

	wait "$SERVER" || rc=$?
	[[ $rc == "$2" ]] || {
		tail -5 "$WORK/$1.err" "$WORK/$1.out"
		bad "$1: exit status $rc, not $2"
	}
}

# --- redis ---------------------------------------------------------------------------------------

redis()
{
	redis-cli -s "$WORK/redis.sock" "$@"
}

start_redis()
{
	rm -f "$WORK/dump.rdb"
	serve redis redis-server --port 0 --unixsocket "$WORK/redis.sock" --dir "$WORK" --save ''
	poll_until 60 redis ping >"$WORK/redis.ping" 2>&1 || bad "redis: no answer"
}

load_redis()
{
	"${CLIENT[@]}" redis-benchmark -s "$WORK/redis.sock" -q -n "${REDIS_REQUESTS:-150000}" \
		-P 16 -c 10 -r 2000 -t set,get,incr,lpush,lpop,sadd,hset,zadd,lrange_300,mset >"$WORK/redis.bench"
	[[ $(grep -c 'requests per second' "$WORK/redis.bench") == 11 ]] ||
		bad "redis: $(cat "$WORK/redis.bench")"
	redis bgsave >"$WORK/redis.bgsave"
	redis eval "local s = $1
		for i = 1, 200000 do s = (s * 31 + #tostring(i)) % 1000003 end
		redis.call('del', 'l')
		for i = 1, 5000 do redis.call('rpush', 'l', (i * 7919) % 10007) end
		local t = redis.call('sort', 'l', 'desc')
		return {s, #t, t[1], string.match('a=1, b=2', '(%w)=2'), cjson.encode({1, {a = 2}})}" 0
	poll_until 60 saved || bad "redis: BGSAVE"
	redis info errorstats | grep errorstat_ || true
}

# No BGSAVE is under way and the last one went well.
saved()
{
	[[ $(redis info persistence | tr -d '\r' |
		grep -Ec '^(rdb_bgsave_in_progress:0|rdb_last_bgsave_status:ok)$') == 2 ]]
}

stop_redis()
{
	redis shutdown nosave || true
	ended redis 0
}

# --- memcached -----------------------------------------------------------------------------------

memcached_answers()
{
	python3 -c 'import socket, sys
socket.socket(socket.AF_UNIX).connect(sys.argv[1])' "$WORK/memcached.sock" 2>"$WORK/memcached.wait"
}

start_memcached()
{
	local -a user=()

	((EUID != 0)) || user=(-u nobody)
	chmod 777 "$WORK"
	rm -f "$WORK"/memcached.{sock,pid}
	serve memcached memcached "${user[@]}" -s "$WORK/memcached.sock" -a 777 -t 2 -m 64 \
		-P "$WORK/memcached.pid"
	poll_until 60 memcached_answers || bad "memcached: no answer"
}

load_memcached()
{
	python3 "$CORPUS/loads/memcached_client.py" "$WORK/memcached.sock" "$1"
}

stop_memcached()
{
	kill -TERM "$(cat "$WORK/memcached.pid")" || bad "memcached: gone"
	ended memcached 0
}

# --- nginx ---------------------------------------------------------------------------------------

start_nginx()
{
	local -i i

	cat >"$WORK/nginx.conf" <<-CONFIG
		daemon off; worker_processes 2; pid $WORK/nginx.pid; error_log $WORK/nginx.log;
		thread_pool default threads=4;
		events { }
		http {
			access_log off; client_body_temp_path $WORK/nginx.b; proxy_temp_path $WORK/nginx.p;
			fastcgi_temp_path $WORK/nginx.f; uwsgi_temp_path $WORK/nginx.u; scgi_temp_path $WORK/nginx.s;
			server {
				listen unix:$WORK/nginx.sock;
				listen unix:$WORK/nginx.tls ssl;
				ssl_certificate $WORK/nginx.crt; ssl_certificate_key $WORK/nginx.key;
				root $DATA; aio threads; gzip on; gzip_types *;
				rewrite ^/turn/(\w+)/(\w+)\$ /\$2 break;
				location /proxied/ { proxy_pass http://unix:$WORK/nginx.sock:/; }
			}
		}
	CONFIG
	chmod 777 "$WORK"
	[[ -e $WORK/nginx.key ]] || openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=x -days 30 \
		-keyout "$WORK/nginx.key" -out "$WORK/nginx.crt" 2>"$WORK/nginx.req"
	: >"$WORK/nginx.log"
	rm -f "$WORK/nginx.sock" "$WORK/nginx.tls"
	serve nginx nginx -c "$WORK/nginx.conf"
	poll_until 60 curl -s -o "$WORK/nginx.first" --unix-socket "$WORK/nginx.sock" http://x/ ||
		bad "nginx: no answer"
}

load_nginx()
{
	local -i i
	local path

	for path in big turn/a/big proxied/big; do
		curl -s --compressed --unix-socket "$WORK/nginx.sock" "http://x/$path" | md5sum
		curl -s -k --compressed --unix-socket "$WORK/nginx.tls" "https://x/$path" | md5sum
	done
	# One handshake each; requests for missing files are logged.
	for ((i = 0; i < 20; i++)); do
		curl -s -k -r "$i-$((i + 9))" --unix-socket "$WORK/nginx.tls" https://x/turn/a/big
		curl -s -k -r 0-9 --unix-socket "$WORK/nginx.tls" https://x/proxied/big
	done | md5sum
	curl -s --unix-socket "$WORK/nginx.sock" "http://x/missing$1" -w '%{http_code}' \
		-o "$WORK/nginx.missing"
}

# The workers are replaced; the old ones end when they have answered.
reload_nginx()
{
	local before

	before=$(pgrep -P "$(cat "$WORK/nginx.pid")" | sort | tr '\n' ' ')
	kill -HUP "$(cat "$WORK/nginx.pid")" || bad "nginx: gone"
	poll_until 60 workers_are_new "$before" || bad "nginx: reload"
}

workers_are_new()
{
	local worker
	local -i n=0

	for worker in $(pgrep -P "$(cat "$WORK/nginx.pid")"); do
		[[ " $1" != *" $worker "* ]] || return 1
		n+=1
	done
	((n == 2))
}

stop_nginx()
{
	kill -QUIT "$(cat "$WORK/nginx.pid")" || bad "nginx: gone"
	ended nginx 0
	! grep -E 'alert|emerg|signal [0-9]' "$WORK/nginx.log" || bad "nginx: its log"
}

# --- postgres ------------------------------------------------------------------------------------

PG_BIN=$(dirname "$(find /usr/lib/postgresql -name initdb 2>/dev/null | sort -V | tail -1)")

# It refuses to run as root.
AS_POSTGRES=()
((EUID != 0)) || AS_POSTGRES=(setpriv --reuid postgres --regid postgres --clear-groups)

psql_tell()
{
	"${AS_POSTGRES[@]}" "$PG_BIN/psql" -X -A -t -q -v ON_ERROR_STOP=1 -h "$WORK/pg.run" \
		-d postgres "$@"
}

make_postgres()
{
	rm -rf "$WORK/pg" "$WORK/pg.run"
	mkdir -m 700 "$WORK/pg"
	mkdir -m 755 "$WORK/pg.run"
	((EUID != 0)) || chown postgres "$WORK/pg" "$WORK/pg.run"
	"${AS_POSTGRES[@]}" "$PG_BIN/initdb" -D "$WORK/pg" -A trust >"$WORK/initdb.out" ||
		bad "postgres: initdb"
}

start_postgres()
{
	[[ -d $WORK/pg ]] || make_postgres
	AS=("${AS_POSTGRES[@]}")
	serve postgres "$PG_BIN/postgres" -D "$WORK/pg" -k "$WORK/pg.run" -c listen_addresses= \
		-c log_checkpoints=off -c autovacuum=off
	AS=()
	# A client that connects too early would add a process.
	poll_until 60 grep -q 'ready to accept connections' "$WORK/postgres.err" ||
		bad "postgres: not ready"
	[[ -e $WORK/pg/filled ]] || {
		"${AS_POSTGRES[@]}" "$PG_BIN/pgbench" -h "$WORK/pg.run" -i -q -s 2 postgres \
			2>"$WORK/pgbench.fill" || bad "postgres: no tables"
		touch "$WORK/pg/filled"
	}
}

load_postgres()
{
	"${AS_POSTGRES[@]}" "${CLIENT[@]}" "$PG_BIN/pgbench" -h "$WORK/pg.run" -c 4 -j 1 -t 300 \
		postgres >"$WORK/pgbench" 2>&1 || bad "postgres: pgbench"
	grep 'actually processed' "$WORK/pgbench" || bad "postgres: $(tail -3 "$WORK/pgbench")"
	psql_tell -v round="$1" -v jit="${PG_JIT:-off}" -f "$CORPUS/loads/postgres.sql"
}

stop_postgres()
{
	kill -INT "$(head -1 "$WORK/pg/postmaster.pid")" || bad "postgres: gone"
	ended postgres 0
	! grep -E 'PANIC|terminated by signal' "$WORK/postgres.err" || bad "postgres: its log"
}

# --- mariadb -------------------------------------------------------------------------------------

start_mariadb()
{
	local user

	user=$(id -un)
	[[ -d $WORK/maria ]] || {
		mkdir -m 777 "$WORK/maria"
		mariadb-install-db --no-defaults --datadir="$WORK/maria" --user="$user" \
			--auth-root-authentication-method=normal >"$WORK/maria.install" 2>&1
	}
	serve mariadb mariadbd --no-defaults --datadir="$WORK/maria" --socket="$WORK/maria.sock" \
		--skip-networking --user="$user" --pid-file="$WORK/maria.pid"
	poll_until 60 mariadb-admin --no-defaults -u root -S "$WORK/maria.sock" ping \
		>"$WORK/maria.ping" 2>&1 || bad "mariadb: no answer"
}

load_mariadb()
{
	{
		echo "set @round = $1;"
		cat "$CORPUS/loads/mariadb.sql"
	} | mariadb --no-defaults -S "$WORK/maria.sock" -N -u root || bad "mariadb: queries"
}

stop_mariadb()
{
	mariadb-admin --no-defaults -u root -S "$WORK/maria.sock" shutdown || bad "mariadb: gone"
	ended mariadb 0
}
