#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs the rows of hosts.table: each program with us and without. Output and status have to be the same, and the
# profile must fit. hosts.sh [--without] [PATTERN] picks rows by name. With --without the object does nothing: then a
# row that wants a profile must fail, or it would prove nothing.
# HOSTS_TOLD: an allowed message for every row, if the machine is so slow that samples are lost.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3
export PATH=$HOSTS:$PATH HOSTS TEST_LIBS SPANPROF_SAMPLE_RATE=250 SPANPROF_FLUSH_TIMEOUT=30s
without=
if [[ ${1:-} == --without ]]; then
	without=1
	shift
fi
readonly WANTED=${1:-${HOSTS_ROWS:-*}} without
# shellcheck disable=SC2053
[[ valgrind.spend != $WANTED ]] || need valgrind
# shellcheck disable=SC2053
[[ stacks.erlang != $WANTED ]] || need erl varnishtest java
# Most rows wait longer than they work, so several run at once.
readonly AT_ONCE=3

has_profile()
{
	[[ -n $(profiles_in "$WORK/$1.d") ]]
}

# try NAME STATUS PROFILED COMMAND TOLD
try()
{
	local name=$1 status=$2 profiled=$3 told=$5${5:+${HOSTS_TOLD:+|}}${HOSTS_TOLD:-}
	local -a command

	eval "command=($4)"
	mkdir "$WORK/$name.d"
	if [[ -z $without ]]; then
		run "$name.plain" "${command[@]}"
		expect_rc "$name.plain" "$status"
	fi
	run_under "$name" SPANPROF_OUTPUT_DIR="$WORK/$name.d" FIXTURE_SPANS="$WORK/$name.spans" "${command[@]}"
	if [[ -n $told ]]; then
		sed -E -i "/^spanprof\[[0-9]+\]: .*($told)/d" "$WORK/$name.err"
	fi
	[[ -n $without ]] || expect_same "$name.plain" "$name" out err rc
	if [[ $profiled == none ]]; then
		[[ -z $(ls "$WORK/$name.d") ]] || fail "there is a profile"
		! grep -qs 'pyroscope\.profile' "$WORK/$name.spans" || fail "a span has our attributes"
	else
		# Some ends give us no control: the exporter may come later.
		[[ -n $without ]] || poll_until 10 has_profile "$name" || true
		has_profile "$name" || fail "no profile"
		report "$WORK/$name.d" "$WORK/$name.json"
		SPANS=$WORK/$name.spans expect "$WORK/$name.json" "$profiled"
	fi
}

# judge NAME STATUS PROFILED COMMAND TOLD
judge()
{
	local why=

	(try "$@") 2>"$WORK/$1.why" || why=$(<"$WORK/$1.why")
	if [[ -n $without && $3 != none ]]; then
		[[ $why != 'FAIL: no profile' ]] || return 0
		why="with an object that does nothing: ${why:-it passes}"
	fi
	[[ -z $why ]] || echo "$1: $why" >>"$WORK/failures"
}

tried=0
touch "$WORK/failures"
while IFS='|' read -r name status profiled command told; do
	[[ $name =~ ^[^#] ]] || continue
	read -r name <<<"$name"
	read -r status <<<"$status"
	read -r profiled <<<"$profiled"
	read -r told <<<"$told"
	# shellcheck disable=SC2053
	[[ $name == $WANTED ]] || continue
	((tried++ < AT_ONCE)) || wait -n
	judge "$name" "$status" "$profiled" "$command" "$told" &
done <test/e2e/hosts.table
wait
echo "$tried rows"
((tried > 0)) || fail "no row is called $WANTED"
[[ ! -s $WORK/failures ]] || fail "$(<"$WORK/failures")"
[[ ${TEST_ALLOC:-} != 1 ]] || compgen -G "$WORK/*.d/*-memory.pb.gz" >/dev/null || fail 'no row has a profile of allocations'
