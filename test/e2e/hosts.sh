#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The rows of hosts.table: each program with us and without, whose output and status have to be the same, and the
# profile of it. hosts.sh [--without] [PATTERN] picks rows by name. With --without the object does nothing: a
# row that wants a profile has to find none, or it would prove nothing.
# HOSTS_TOLD: what may be told of every row, where the machine is so slow that it loses something.
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
# Most rows wait as long as they work.
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
		# Nobody is asked before some ends: the exporter may come later.
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
