#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What hosts put into their rings is recorded by an exporter that makes no profiles, and replayed with a clock of the
# test's: the same recording gives the same bytes each time, and each profile has exactly the sums of its interval
# that a program of the test finds by itself. Spans and threads, programs of the corpus, stories of the matrix.
# REPLAY=FOLDER replays the recordings that are there instead, REPLAY_OLD=PROGRAM compares with another build's replay.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3 xz
[[ -x /usr/bin/python3 && -x /usr/bin/perl ]] || skip 'python3 or perl is not where Debian has it'
export SPANPROF_THREAD_NAME=true SPANPROF_UPLOAD_INTERVAL=1s
readonly RATE=500
readonly REPLAY_PROGRAM=$TEST_LIBS/replay/replay

# record NAME VARIABLE=VALUE COMMAND...
record()
{
	mkdir "$WORK/$1"
	run "$1" LD_PRELOAD="$SO" SPANPROF_EXPORTER="$TEST_LIBS/replay/record" SPANPROF_OUTPUT_DIR="$WORK/$1" \
		SPANPROF_SAMPLE_RATE=$RATE "${@:2}"
	expect_silent "$1"
}

# replay RECORDING: adds to samples.
replay()
{
	local sums round

	for round in 1 2 ${REPLAY_OLD:+old}; do
		rm -rf "$WORK/replayed.$round"
		mkdir "$WORK/replayed.$round"
		SPANPROF_SAMPLE_RATE=$RATE timeout 60 "$([[ $round != old ]] && echo "$REPLAY_PROGRAM" || echo "$REPLAY_OLD")" \
			"$1" "$WORK/replayed.$round" || fail "$1 is not replayed"
	done
	profiles_in "$WORK/replayed.1" >"$WORK/names"
	[[ -s $WORK/names ]] || return 0
	while read -r name; do
		cmp "$name" "$WORK/replayed.2/${name##*/}" || fail "$1: not the same twice"
	done <"$WORK/names"
	for round in 1 ${REPLAY_OLD:+old}; do
		# shellcheck disable=SC2046
		sums=$(python3 test/replay/reference.py "$1" $RATE $(profiles_in "$WORK/replayed.$round")) || fail "$1, $round"
	done
	samples=$((samples + $(cut -d ' ' -f 2 <<<"$sums")))
}

if [[ -z ${REPLAY:-} ]]; then
	record spans A= bash -c "head -c 400000 /dev/zero | tr '\\0' x | (while read -r -n 40000 _; do sleep 0.2; done; true) | exec '$HOSTS/busy'"
	record python3 SPANPROF_PROFILE=always /usr/bin/python3 -c 'print(len({str(i): hash(str(i)) for i in range(400000)}))'
	# shellcheck disable=SC2016
	record perl SPANPROF_PROFILE=always /usr/bin/perl -e 'my %h; $h{$_ x 2} = $_ for 1 .. 200000; print scalar keys %h'
	record xz SPANPROF_PROFILE=always xz -6 -c "$EXPORTER"
	for sdk in debian v1_24; do
		mkdir "$WORK/told.$sdk"
		record "stories.$sdk" CONFORMANCE_LABELS='ids=all names=root' SPANPROF_SPAN_ID_SCOPE=all \
			"$TEST_LIBS/conformance/$sdk/lazy" --story nested --samples 3 "$WORK/told.$sdk"
	done
fi
for recording in "${REPLAY:-$WORK}"/*/recording.*; do
	samples=0
	replay "$recording"
	echo "$recording: $samples samples"
	total=$((${total:-0} + samples))
	[[ $recording != */spans/* ]] || spans=$samples
done
((total > 150 && ${spans:-100} > 50)) || fail "$total samples, ${spans:-} of them in spans"
