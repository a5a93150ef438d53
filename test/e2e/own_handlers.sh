#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A host with handlers of its own for the very signal we sample with sees exactly what it would see
# without us, and is sampled all the same; so is one that profiles itself with ITIMER_PROF.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3
export SPANPROF_SAMPLE_RATE=250

# handlers NAME SIGNAL [VARIABLE=VALUE]: the host's signal is the one we use.
handlers()
{
	local name=$1 signal=$2

	shift 2
	mkdir "$WORK/$name"
	run "$name.plain" "$HOSTS/handlers" "$(kill -l "$signal")"
	expect_rc "$name.plain" 14
	run_under "$name" SPANPROF_OUTPUT_DIR="$WORK/$name" "$@" "$HOSTS/handlers" \
		"$(kill -l "$signal")"
	expect_same "$name.plain" "$name" out err rc
	report "$WORK/$name" "$WORK/$name.json"
	# 300 ms of work, half of it after the host had used its signal in every way.
	expect "$WORK/$name.json" 'd["labelled"]["ns"] > 250e6'
}

handlers default URG
handlers chosen USR1 SPANPROF_SIGNAL=SIGUSR1
handlers realtime RTMIN+5 SPANPROF_SIGNAL=RTMIN+5
# Its own business while we use another one.
handlers other USR1

for signal in '' SIGPROF; do
	name=itimer$signal
	mkdir "$WORK/$name"
	run "$name.plain" "$HOSTS/itimer"
	expect_rc "$name.plain" 15
	run_under "$name" SPANPROF_OUTPUT_DIR="$WORK/$name" ${signal:+SPANPROF_SIGNAL=$signal} \
		"$HOSTS/itimer"
	expect_same "$name.plain" "$name" out err rc
	report "$WORK/$name" "$WORK/$name.json"
	expect "$WORK/$name.json" 'd["labelled"]["ns"] > 400e6'
done
