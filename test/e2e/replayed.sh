#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# An exporter without profiles records what hosts put into their rings, and what the looks at their threads find. A
# replay with a clock of the test's gives the same bytes each time, and each profile has exactly the sums of its
# interval that a program of the test computes by itself. In OTLP the sums are the same. The recordings are of spans
# and threads, waits and locks, memory, programs of the corpus, stories of the matrix. REPLAY=FOLDER replays existing
# recordings instead, REPLAY_OLD=PROGRAM compares with another build's replay.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3 xz
[[ -x /usr/bin/python3 && -x /usr/bin/perl ]] || skip 'python3 or perl is not where Debian has it'
export SPANPROF_THREAD_NAME=true SPANPROF_UPLOAD_INTERVAL=1s SPANPROF_OFF_CPU=true
# A replay has no histograms of durations, so it could list no slow roots.
export SPANPROF_SLOW=off
readonly RATE=500 MEAN=65536
readonly ALLOC_SO=${SO%/*}/libspanprof-alloc.so
OBJECT=$(object_with "$WORK/object" "$TEST_LIBS/replay/record")
readonly OBJECT
readonly WITH_ALLOC=(LD_PRELOAD="$OBJECT $ALLOC_SO" SPANPROF_ALLOC=true SPANPROF_ALLOC_INTERVAL="$MEAN")
readonly REPLAY_PROGRAM=$TEST_LIBS/replay/replay

# record NAME VARIABLE=VALUE COMMAND...
record()
{
	mkdir "$WORK/$1"
	run "$1" LD_PRELOAD="$OBJECT" SPANPROF_OUTPUT_DIR="$WORK/$1" \
		SPANPROF_SAMPLE_RATE=$RATE "${@:2}"
	expect_silent "$1"
}

# replay_into NAME FORMAT PROGRAM RECORDING
replay_into()
{
	rm -rf "$WORK/replayed.$1"
	mkdir "$WORK/replayed.$1"
	SPANPROF_SAMPLE_RATE=$RATE SPANPROF_ALLOC=true SPANPROF_ALLOC_INTERVAL=$MEAN SPANPROF_OUTPUT_FORMAT=$2 \
		timeout 60 "$3" "$4" "$WORK/replayed.$1" || fail "$4 is not replayed"
}

# replay RECORDING: adds up the samples of each type.
replay()
{
	local counts format round name i types=(cpu off_cpu alloc_space inuse_space)

	for round in 1 2; do
		for format in pprof otlp; do
			replay_into $format.$round $format "$REPLAY_PROGRAM" "$1"
		done
	done
	profiles_in "$WORK/replayed.pprof.1" >"$WORK/names"
	[[ -s $WORK/names ]] || return 0
	for name in "$WORK/replayed."{pprof,otlp}.1/*.gz; do
		cmp "$name" "${name/.1\//.2/}" || fail "$1: not the same twice"
	done
	[[ -z ${REPLAY_OLD:-} ]] || replay_into pprof.old pprof "$REPLAY_OLD" "$1"
	for round in 1 ${REPLAY_OLD:+old}; do
		# shellcheck disable=SC2046
		python3 test/replay/reference.py "$1" $RATE $MEAN $(profiles_in "$WORK/replayed.pprof.$round") >"$WORK/counts" ||
			fail "$1, $round"
	done
	read -ra counts <"$WORK/counts"
	for i in "${!types[@]}"; do
		samples[i]=${counts[i]}
		((counts[i] != 0)) || continue
		for format in pprof otlp; do
			build/spanprof-report --folded --by span --type "${types[i]}" "$WORK/replayed.$format.1" >"$WORK/$format"
			# Waits have no number in OTLP.
			[[ ${types[i]} == off_cpu ]] || build/spanprof-report --json --type "${types[i]}" \
				"$WORK/replayed.$format.1" | grep '"total": {' >>"$WORK/$format"
		done
		cmp "$WORK"/{pprof,otlp} || fail "$1: ${types[i]} is not the same in OTLP"
	done
}

if [[ -z ${REPLAY:-} ]]; then
	record spans A= bash -c "head -c 400000 /dev/zero | tr '\\0' x | (while read -r -n 40000 _; do sleep 0.2; done; true) | exec '$HOSTS/busy'"
	record python3 SPANPROF_PROFILE=always /usr/bin/python3 -c 'print(len({str(i): hash(str(i)) for i in range(400000)}))'
	# shellcheck disable=SC2016
	record perl SPANPROF_PROFILE=always /usr/bin/perl -e 'my %h; $h{$_ x 2} = $_ for 1 .. 200000; print scalar keys %h'
	record waits A= "$HOSTS/waits" 2 50
	record locks A= "$HOSTS/locks" 4 10
	record allocs "${WITH_ALLOC[@]}" "$HOSTS/allocs" truth 2
	record memory "${WITH_ALLOC[@]}" SPANPROF_PROFILE=always /usr/bin/perl -e 'my @a; push @a, "y" x 5000 for 1 .. 20000; splice @a, 0, 15000'
	record xz SPANPROF_PROFILE=always xz -6 -c "$EXPORTER"
	for sdk in debian v1_24; do
		mkdir "$WORK/told.$sdk"
		record "stories.$sdk" CONFORMANCE_LABELS='ids=all names=root' SPANPROF_SPAN_ID_SCOPE=all \
			"$TEST_LIBS/conformance/$sdk/lazy" --story nested --samples 3 "$WORK/told.$sdk"
	done
fi
for recording in "${REPLAY:-$WORK}"/*/recording.*; do
	samples=(0 0 0 0)
	replay "$recording"
	echo "$recording: ${samples[*]}"
	for i in 0 1 2 3; do
		total[i]=$((${total[i]:-0} + samples[i]))
	done
	[[ $recording != */spans/* ]] || spans=${samples[0]}
done
[[ -z ${REPLAY:-} ]] || exit 0
((total[0] > 150 && spans > 50 && total[1] > 50 && total[2] > 50 && total[3] > 50)) || fail "samples: ${total[*]}; $spans in spans"
