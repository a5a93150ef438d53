#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A PostgreSQL server in a folder of its own, with backends that are killed: test/peers/postgresql.sh BIN FOLDER
# [TEST]. Prints "ok TEST" or "fail TEST" for each test, or for one.
set -uo pipefail

readonly BIN=$1 DIR=$2 ONLY=${3-}
export PGHOST=$DIR PGDATABASE=postgres PGUSER=tester
cd "$DIR" || exit 1

query()
{
	"$BIN/psql" -X -A -t -q -c "$1"
}

start()
{
	"$BIN/pg_ctl" -D data -l log -w -t 60 -o "-k $DIR -c listen_addresses= -c restart_after_crash=on -c fsync=off" start
}

# Waits until the server answers again, at most a minute.
answers()
{
	local i

	for ((i = 0; i < 600; i++)); do
		[[ $(query 'select 1' 2>/dev/null) == 1 ]] && return 0
		sleep 0.1
	done
	return 1
}

tests_initdb() { "$BIN/initdb" -D data -U tester -A trust --no-sync >initdb.log; }
tests_start() { start >/dev/null; }
tests_load() { "$BIN/pgbench" -i -q -s 5 2>load.err; }
tests_pgbench() { "$BIN/pgbench" -n -c 8 -j 2 -t 500 >pgbench.out 2>&1; }
tests_parallel() { [[ $(query 'set max_parallel_workers_per_gather = 2; select count(*) from pgbench_accounts a join pgbench_accounts b using (aid)') == 500000 ]]; }
tests_notify() { [[ $(query "listen x; notify x, 'y'") == *'"x"'*'"y"'* ]]; }
tests_timeout() { [[ $(query "set statement_timeout = '200ms'; select pg_sleep(10)" 2>&1) == *'statement timeout'* ]]; }

tests_cancel()
{
	local pid

	query 'select pg_sleep(30)' >cancel.out 2>&1 &
	pid=$!
	until [[ $(query "select count(pg_cancel_backend(pid)) from pg_stat_activity where query = 'select pg_sleep(30)'") == 1 ]]; do
		sleep 0.05
	done
	wait "$pid"
	grep -q 'canceling statement' cancel.out
}

# A backend is killed in the middle of its work: the server ends all others and restarts.
tests_kill9()
{
	local round victim load

	for round in 1 2 3; do
		"$BIN/pgbench" -n -c 8 -j 2 -T 30 >"kill.$round" 2>&1 &
		load=$!
		victim=
		until [[ -n $victim ]]; do
			victim=$(query "select pid from pg_stat_activity where query like 'UPDATE pgbench%' limit 1" 2>/dev/null)
			kill -0 "$load" 2>/dev/null || return 1
		done
		kill -KILL "$victim" || return 1
		wait "$load"
		answers || return 1
		[[ $(query 'select count(*) from pgbench_accounts') == 500000 ]] || return 1
	done
	[[ $(grep -c "was terminated by signal 9" log) == 3 ]]
}

tests_balance() { [[ $(query 'select (select sum(abalance) from pgbench_accounts) = (select sum(bbalance) from pgbench_branches)') == t ]]; }
tests_stop_fast() { "$BIN/pg_ctl" -D data -w -t 60 -m fast stop >/dev/null; }

tests_clean_start()
{
	start >/dev/null && ! awk '/starting PostgreSQL/ { unclean = 0 } /not properly shut down/ { unclean = 1 }
		END { exit !unclean }' log
}

tests_stop_immediate() { "$BIN/pg_ctl" -D data -w -t 60 -m immediate stop >/dev/null; }

for name in initdb start load pgbench parallel notify timeout cancel kill9 balance stop_fast clean_start \
	stop_immediate; do
	if "tests_$name"; then
		echo "ok $name"
	else
		echo "fail $name"
		tail -n 5 log
	fi
	[[ $name != "$ONLY" ]] || break
done
"$BIN/pg_ctl" -D data -w -m immediate stop >/dev/null 2>&1 || true
