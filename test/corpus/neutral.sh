#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016
# Programs of Debian, unmodified, at 1,000 Hz from their start: their output, their end, and the descriptors,
# environment and signal masks of every process at its start and end are the same as without us, and no call fails
# with EINTR because of us. Servers get the same requests with and without us; they are told to end, and their exit
# status shows that they ended by themselves.
# Prints a row of README.md's table for each, which it also writes there.
# Usage: neutral.sh [NAME...|--table]; --table only updates the table.
TEST_RUN_LIMIT_S=300
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash
# shellcheck source=test/corpus/common.bash
source test/corpus/common.bash
# shellcheck source=test/corpus/servers.bash
source test/corpus/servers.bash
# shellcheck source=test/corpus/compare.bash
source test/corpus/compare.bash

need strace python3
strace -o /dev/null true 2>/dev/null || skip "strace may not trace here"
readonly ROWS=$TEST_BUILD/corpus
# If one call in a few is a system call, strace is slow.
REDIS_REQUESTS=20000
CLEAN+=(GIT_AUTHOR_DATE=@1700000000 GIT_COMMITTER_DATE=@1700000000 GIT_AUTHOR_NAME=t
	GIT_COMMITTER_NAME=t GIT_AUTHOR_EMAIL=t@example.com GIT_COMMITTER_EMAIL=t@example.com
	GIT_CONFIG_NOSYSTEM=1 CORPUS="$CORPUS" ROOT="$ROOT")

PROGRAMS=(python3 perl php php_time_limit bash bash_900 git gzip xz openssl sqlite3 gcc clang node java
	coreutils sort tar curl)
SERVERS=(redis memcached nginx postgres mariadb)

declare -A WORDS=(
	[python3]='python3 -S $CORPUS/loads/python3.py 1; python3 -c "import subprocess, sys
print(subprocess.run([\"ls\", \"-l\", \"missing\"], capture_output=True), subprocess.call(\"exit 3\", shell=True))
sys.exit(5)"'
	[perl]='perl $CORPUS/loads/perl.pl 1;
		perl -e "system(q(echo \$HOME; exit 4)); print \$? >> 8, qq(\\n); warn qq(careful\\n); exit 6"'
	[php]='php $CORPUS/loads/php.php 1; php $CORPUS/loads/php.php 2 1;
		php -r "passthru(\"ls big missing\", \$rc); exit(\$rc);"'
	[php_time_limit]='php -r "set_time_limit(1); for (;;) { }"'
	[bash]='bash $CORPUS/loads/bash.sh 1'
	[bash_900]='bash -c "for ((i = 0; i < 300; i++)); do echo \$i | cat | wc -c; done | sort | uniq -c"'
	[git]='git clone -q base.git copy && cd copy && git log --stat | md5sum && git gc -q --aggressive &&
		git fsck --full && git status --short; git show missing; git log -3 --format=%H'
	[gzip]='gzip -9 -n -c big | md5sum; gzip -1 -n -c big | gzip -dc | md5sum; echo broken | gzip -d'
	[xz]='xz -T2 -3 -c big | xz -dc | md5sum; echo broken | xz -d'
	[openssl]='openssl genrsa 3072 2>/dev/null | openssl rsa -check -noout;
		openssl dgst -sha256 big; openssl enc -aes-256-gcm -k x -in big;
		openssl enc -aes-256-cbc -pbkdf2 -S 0000000000000000 -k x -in big | md5sum; openssl missing'
	[sqlite3]='sqlite3 :memory: ".read $CORPUS/loads/sqlite3.sql" \
		".shell ls -l /proc/self/fd | wc -l" "select * from missing"'
	[gcc]='for file in $ROOT/sampler/*/s*.c; do
			gcc -std=gnu11 -D_GNU_SOURCE= -I$ROOT -O2 -c -o source.o $file && md5sum <source.o;
		done;
		echo "int main(void) { return missing; }" | gcc -x c -o program -'
	[clang]='for file in $ROOT/sampler/*/s*.c; do
			clang -std=gnu11 -D_GNU_SOURCE= -I$ROOT -O2 -c -o source.o $file && md5sum <source.o;
		done;
		echo "int main(void) { return missing; }" | clang -x c -o program -'
	[node]='node $CORPUS/loads/node.js 1; node -e "console.log(
			require(\"child_process\").spawnSync(\"ls\", [\"big\", \"missing\"]).output.join()); process.exit(7)"'
	[java]='java $CORPUS/loads/Load.java 1; java -cp . Missing'
	[coreutils]='md5sum big; sha512sum big; wc lines; cut -c1-8 lines | uniq | tac | head -100000 | nl | md5sum;
		base64 big | md5sum; factor 1000000000000000003 1000000000000000009; ls -l missing;
		split -n 3 big part. && cat part.* | cmp - big; timeout 20 yes | head -c 100 | wc -c;
		seq 300000 | shuf --random-source=big | sort -n | tail -1;
		env | grep -Ev "^(LD_PRELOAD|OBSERVED|SPANPROF_)"; timeout 0.5 sleep 9; echo $?'
	[sort]='sort -S 40M --parallel=2 lines | md5sum;
		sort -S 60M --compress-program=gzip -r -k1.4n lines | md5sum; sort missing'
	[tar]='tar cf - --sort=name --mtime=@0 --owner=0 --group=0 base.git lines | tar xOf - lines | md5sum;
		tar czf packed.tgz big && tar xzf packed.tgz -O | md5sum; tar xf missing'
	[curl]='curl -sS $URL/big | md5sum; curl -sS -r 5-500000 $URL/big | md5sum;
		curl -sS --parallel -o one $URL/big -o two $URL/lines 2>progress;
		cmp one big; curl -sS -f $URL/missing; curl -s http://127.0.0.1:1/; curl -sS "file://$PWD/big" | md5sum'
)

declare -A TITLE=([bash_900]='bash, 900 processes' [php_time_limit]='php with a time limit' [sort]='sort, 100 MB'
	[git]='git clone, log, gc, fsck' [curl]='curl on loopback' [redis]='redis-server, redis-benchmark, BGSAVE'
	[nginx]='nginx, thread pool, TLS, reload' [postgres]='postgres, pgbench' [mariadb]='mariadbd')

# same NAME WHAT: compares NAME.plain.WHAT and NAME.profiled.WHAT.
same()
{
	cmp -s "$WORK/$1.plain.$2" "$WORK/$1.profiled.$2" || {
		diff "$WORK/$1.plain.$2" "$WORK/$1.profiled.$2" | cut -c1-2000 | head -10 || true
		bad "$1: $2 is not as without the profiler"
	}
}

# processes NAME: the number of processes with a profile.
processes()
{
	profiles_in "$WORK/$1.profiles" | sed -E 's/.*-([0-9]+)-[^-]*-[0-9]+\.pb\.gz$/\1/' | sort -u | wc -l
}

# row NAME BEFORE: the observations, and those that were wrong.
row()
{
	local name=$1 line ours='?' waits='?' signals='?' others='?'
	local -i before=$2

	interruptions "$name" >"$WORK/$name.eintr"
	while read -r line; do
		case $line in
		'signals '*) signals=${line#* } ;;
		'ours '*) ours=${line#* } ;;
		'waits '*) waits=${line#* } ;;
		'others '*) others=${line#* } ;;
		esac
	done <"$WORK/$name.eintr"
	[[ $ours == 0 ]] || {
		cat "$WORK/$name.eintr"
		bad "$name: EINTR"
	}
	printf '| %s | %d | %d | %s | %s | %s | %s |\n' "${TITLE[$name]:-$name}" \
		"$(processes "$name")" \
		"$(python3 "$CORPUS/stacks.py" count "$WORK/$name.profiles" '.*')" \
		"$( ((failures == before)) && echo none || echo "**$((failures - before))**")" \
		"$signals" "$((ours + waits))" "$others" | tee "$ROWS/neutral-$name"
	rm -rf "${WORK:?}/$name".{profiles,traced.profiles,trace}
}

# tell NAME KIND: runs the program in a folder that looks the same each time.
tell()
{
	local name=$1 kind=$2
	local -a words=(bash -c "cd '$DATA' && ${WORDS[$1]}")

	rm -rf "$DATA/work" "$DATA/copy" "$DATA"/{one,two,program,source.o,packed.tgz} "$DATA"/part.*
	"under_$kind" "$name"
	run "$name.$kind" "${UNDER[@]}" "${words[@]}"
}

program()
{
	local name=$1
	local -i before=$failures

	tell "$name" plain
	tell "$name" profiled
	for what in out err rc; do
		same "$name" "$what"
	done
	compare_seen "$name"
	tell "$name" traced
	cmp -s "$WORK/$name.plain.out" "$WORK/$name.traced.out" || bad "$name: its output below strace"
	row "$name" "$before"
}

# compare_seen NAME [OPTION]: an option of sort.
compare_seen()
{
	local name=$1 kind

	shift
	for kind in plain profiled; do
		seen "$name.$kind" | sort "$@" >"$WORK/$name.$kind.sorted"
	done
	same "$name" sorted
}

# --- Servers --------------------------------------------------------------------------------------

# descriptors PROCESS: the number of each kind, without the files of a database. Their numbers depend on the order in
# which a server's threads open them.
descriptors()
{
	local fd

	for fd in "/proc/$1/fd/"*; do
		readlink "$fd" || true
	done | grep -Ev "^$WORK/(pg|maria)/" | sed -E -e 's/\[[0-9]+\]//' -e 's/#[0-9]+/#N/' | sort | uniq -c
}

# asked NAME KIND: the server is started, gets requests, is examined and ended.
asked()
{
	local name=$1 kind=$2

	"under_$kind" "$name"
	CLIENT=("${UNDER[@]}")
	"start_$name"
	"load_$name" 1 >"$WORK/$name.$kind.out" 2>"$WORK/$name.$kind.load_err" || bad "$name: load"
	if [[ $name == nginx ]]; then
		reload_nginx
		load_nginx 2 >>"$WORK/$name.$kind.out" || bad "nginx: load after reload"
	fi
	descriptors "$SERVER" >"$WORK/$name.$kind.open"
	CLIENT=()
	"stop_$name"
	# Its log, without the times, sizes and processes.
	cat "$WORK/$name.out" "$WORK/$name.err" | sed -E 's/[0-9]+/N/g' | sort -u >"$WORK/$name.$kind.log"
}

server()
{
	local name=$1
	local -i before=$failures

	# Makes its files, so that the first run is like the others.
	UNDER=("${CLEAN[@]}")
	"start_$name"
	"stop_$name"
	asked "$name" plain
	asked "$name" profiled
	same "$name" out
	same "$name" load_err
	same "$name" open
	same "$name" log
	# The number and lifetime of its processes may differ.
	compare_seen "$name" -u
	asked "$name" traced
	row "$name" "$before"
}

# An unprofiled process serves files from $DATA to curl.
serve_files()
{
	python3 -u -m http.server --bind 127.0.0.1 --directory "$DATA" 0 >"$WORK/http.out" 2>"$WORK/http.err" &
	STARTED+=("$!")
	poll_until 20 grep -q 'port [0-9]' "$WORK/http.out" || fail "no HTTP server"
	CLEAN+=(URL="http://127.0.0.1:$(sed -E 's/.*port ([0-9]+).*/\1/' "$WORK/http.out")")
}

table()
{
	local name

	echo '| program | processes | samples | differences | signals below strace | `EINTR` from them | from others |'
	echo '|---|---|---|---|---|---|---|'
	for name in "${PROGRAMS[@]}" "${SERVERS[@]}"; do
		[[ ! -e $ROWS/neutral-$name ]] || cat "$ROWS/neutral-$name"
	done
}

write_table()
{
	table >"$WORK/table"
	between neutral "$WORK/table" "$CORPUS/README.md"
}

if [[ ${1:-} == --table ]]; then
	write_table
	exit 0
fi
names=("$@")
((${#names[@]} > 0)) || names=("${PROGRAMS[@]}" "${SERVERS[@]}")
mkdir -p "$ROWS"
make_data 10000000
serve_files
for name in "${names[@]}"; do
	if [[ -v WORDS[$name] ]]; then
		program "$name"
	else
		server "$name"
	fi
done
write_table
((failures == 0)) || fail "$failures"
