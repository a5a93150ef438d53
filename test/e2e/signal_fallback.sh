#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A program that uses SIGURG itself, by a handler before or during sampling, by a signalfd or by
# sigwait, gets all of them and none but its own, and is sampled nevertheless, in its children as well:
# by another signal, which is told. With SPANPROF_SIGNAL set it stays with that one.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

export SPANPROF_LOG_LEVEL=info SPANPROF_SAMPLE_RATE=250

# urgent MODE RUN [VARIABLE=VALUE]...
urgent()
{
	local mode=$1 name=$1.$2

	mkdir "$WORK/$name"
	run "$name.plain" "$HOSTS/urgent" "$mode"
	run_under "$name" SPANPROF_OUTPUT_DIR="$WORK/$name" SPANPROF_STATUS_FILE="$WORK/$name.%p.status" \
		"${@:3}" "$HOSTS/urgent" "$mode"
	expect_same "$name.plain" "$name" out rc
	expect_rc "$name" 9
	report "$WORK/$name" "$WORK/$name.json"
}

# signal_is NAME SIGNAL PROCESSES: that is the one in each process's status.
signal_is()
{
	local status n=0

	for status in "$WORK/$1".*.status; do
		expect "$status" "d['signal'] == '$2' and d['loss']['signal_taken_by_host'] == 0"
		n=$((n + 1))
	done
	[[ $n == "$3" ]] || fail "$1: $n processes with a status, not $3"
}

# told RUN LEAST MOST: that many processes told it.
told()
{
	local lines

	lines=$(grep -c 'uses signal 23 itself: sampling' "$WORK/$1.err" || true)
	((lines >= $2 && lines <= $3)) || {
		cat "$WORK/$1.err"
		fail "$1: it was told $lines times"
	}
}

# Records of what no sample stands for are few: less than half, where without the move it is nearly all.
sampled()
{
	expect "$WORK/$1.json" 'd["residual"]["ns"] * 2 < d["total"]["ns"]'
}

MOVED=RTMIN+$(python3 -c 'import signal; print(signal.SIGRTMAX - 3 - signal.SIGRTMIN)')
readonly MOVED
urgent none auto
signal_is none.auto SIGURG 1
told none.auto 0 0
sampled none.auto
for mode in before during; do
	urgent "$mode" auto
	signal_is "$mode.auto" "$MOVED" 2
	sampled "$mode.auto"
done
# Who starts with it tells so at once; a child tells what its parent has not told yet.
told before.auto 1 1
told during.auto 1 2
for mode in signalfd sigwait; do
	urgent "$mode" auto
	signal_is "$mode.auto" "$MOVED" 1
	told "$mode.auto" 1 1
	sampled "$mode.auto"
done
urgent signalfd set SPANPROF_SIGNAL=SIGURG
signal_is signalfd.set SIGURG 1
told signalfd.set 0 0
