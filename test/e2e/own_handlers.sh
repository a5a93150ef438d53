#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A host with handlers of its own, that blocks signals, waits for them or reads them from a descriptor, sees
# exactly what it would see without us, and is sampled all the same; so is one that profiles itself with
# ITIMER_PROF.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3
export SPANPROF_SAMPLE_RATE=250

# handlers NAME SIGNAL
handlers()
{
	local name=$1 signal=$2

	mkdir "$WORK/$name"
	run "$name.plain" "$HOSTS/handlers" "$(kill -l "$signal")"
	expect_rc "$name.plain" 14
	run_under "$name" SPANPROF_OUTPUT_DIR="$WORK/$name" "$HOSTS/handlers" \
		"$(kill -l "$signal")"
	expect_same "$name.plain" "$name" out err rc
	report "$WORK/$name" "$WORK/$name.json"
	# 300 ms of work, half of it after the host had used its signal in every way.
	expect "$WORK/$name.json" 'd["labelled"]["ns"] > 250e6'
}

handlers urgent URG
handlers first RTMIN
handlers user USR1

for mode in none before during signalfd sigwait; do
	mkdir "$WORK/$mode"
	run "$mode.plain" "$HOSTS/urgent" "$mode"
	run_under "$mode" SPANPROF_OUTPUT_DIR="$WORK/$mode" "$HOSTS/urgent" "$mode"
	expect_same "$mode.plain" "$mode" out err rc
	expect_rc "$mode" 9
	report "$WORK/$mode" "$WORK/$mode.json"
	# Records of what no sample stands for are few.
	expect "$WORK/$mode.json" 'd["residual"]["ns"] * 4 < d["total"]["ns"]'
done

mkdir "$WORK/itimer"
run itimer.plain "$HOSTS/itimer"
expect_rc itimer.plain 15
run_under itimer SPANPROF_OUTPUT_DIR="$WORK/itimer" "$HOSTS/itimer"
expect_same itimer.plain itimer out err rc
report "$WORK/itimer" "$WORK/itimer.json"
expect "$WORK/itimer.json" 'd["labelled"]["ns"] > 400e6'
