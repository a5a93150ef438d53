#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A profile's total is the CPU time of the process, even where no sample can be: in threads that live for two
# milliseconds, in bursts in step with the kernel's tick, in children of children.
# Runs alone: it compares CPU time with clocks to a few per cent.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3

# equal NAME ARGUMENT...: runs the host, and compares its clocks with the profiles.
equal()
{
	local name=$1 least=1

	shift
	mkdir "$WORK/$name"
	# A thread's last samples may count for up to a period more than it used: a millisecond.
	run_under "$name" SPANPROF_PROFILE=always SPANPROF_SAMPLE_RATE=1000 \
		SPANPROF_OUTPUT_DIR="$WORK/$name" "$HOSTS/brief" "$@"
	expect_rc "$name" 0
	expect_silent "$name"
	report "$WORK/$name" "$WORK/$name.json"
	awk '{ sum += $2 } END { printf "%d\n", sum }' "$WORK/$name.out" >"$WORK/$name.ns"
	echo "$name: the host says $(result "$name.ns") ns," \
		"the profile $(ask "$WORK/$name.json" "d['total']['ns']") ns," \
		"$(ask "$WORK/$name.json" "d['total']['samples']") samples"
	expect "$WORK/$name.json" "d['total']['ns'] <= 1.01 * $(result "$name.ns")"
	# Time that the process used after it read its clock is only in the profile, so the profile has at least the
	# clock's value, except for the resolution of the clocks.
	expect "$WORK/$name.json" "d['total']['ns'] >= $least * $(result "$name.ns") - 3e5"
}

# unsampled NAME: the nanoseconds shown as unsampled.
unsampled()
{
	ask "$WORK/$1.json" \
		"sum(f['self_ns'] for f in d['functions'] if f['function'] == '[unsampled cpu]')"
}

equal threads threads 500 2
equal exits exits 200 2
equal cancel cancel 200 2
equal c11 c11 200 2
equal bursts bursts 400
equal fork fork 3 100
equal long threads 8 150

# Most of the time has no samples, and is shown under the routine that the threads ran.
[[ $(unsampled threads) -gt 300000000 ]] || fail "two millisecond threads were sampled"
expect "$WORK/threads.json" 'below("ends") > 300'
expect "$WORK/c11.json" 'below("ends_in_c11") > 300'
# A long-lived thread is sampled.
[[ $(unsampled long) -lt 120000000 ]] || fail "long threads were not sampled"

# As a rule these threads are too short to be sampled. Half of them are in a span nearly all their life: the profile
# has their unsampled time under that span. The other threads' time is under no span.
mkdir "$WORK/tasks"
run_under tasks SPANPROF_PROFILE=always SPANPROF_OUTPUT_DIR="$WORK/tasks" "$HOSTS/tasks" 400
expect_rc tasks 0
report "$WORK/tasks" "$WORK/tasks.json"
spans=$(awk '$1 == "spans" { print $2 }' "$WORK/tasks.out")
echo "tasks: the host says $spans ns in spans, the profile $(ask "$WORK/tasks.json" "d['labelled']['ns']") ns," \
	"$(ask "$WORK/tasks.json" "sum(n['samples'] for n in d['span_names'])") samples"
expect "$WORK/tasks.json" "[n['span_name'] for n in d['span_names']] == ['task']"
expect "$WORK/tasks.json" "len(d['spans']) >= 60"
expect "$WORK/tasks.json" "0.7 < d['labelled']['ns'] / $spans < 1.3"
