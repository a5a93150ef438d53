#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A child of a fork that runs no handler of pthread_atfork() is a process of its own from its first span on, like a
# child of fork(). Waits of the parent meanwhile belong to the parent's span.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3

# forks HOW: runs the host, and writes PROCESS.json for each of the two processes.
forks()
{
	local how=$1 who pid

	mkdir "$WORK/$how"
	run_under "$how" SPANPROF_OUTPUT_DIR="$WORK/$how" SPANPROF_OFF_CPU=true SPANPROF_ACTIVE_SPAN=start \
		SPANPROF_SPAN_ID_SCOPE=all SPANPROF_SAMPLE_RATE=250 "$HOSTS/raw_fork" "$how"
	expect_rc "$how" 23
	expect_silent "$how"
	for who in parent child; do
		pid=$(value "$how" "$who")
		mkdir "$WORK/$how.$who"
		while read -r file; do
			cp "$file" "$WORK/$how.$who"
		done < <(profiles_in "$WORK/$how" | grep -e "-$pid-")
	done
}

# shows HOW WHO TYPE LEAST_MS OTHER: the process has at least LEAST_MS in its own span, and hardly any time in the span of
# the other process. The child begins and ends in that span. It waits there for the last push, but that is no wait of
# the program.
shows()
{
	local file=$WORK/$1.$2.$3.json

	report "$WORK/$1.$2" "$file" --type "$3"
	expect "$file" "sum(s['ns'] for s in d['spans'] if s['span_name'] == '$2') > $4 * 1000000"
	expect "$file" "sum(s['ns'] for s in d['spans'] if s['span_name'] == '$5') < $4 * $([[ $3 == cpu ]] && echo 200000 || echo 100000)"
}

for how in fork _Fork clone; do
	forks "$how"
	shows "$how" parent off_cpu 1200 child
	shows "$how" parent cpu 50 child
	shows "$how" child off_cpu 250 parent
	shows "$how" child cpu 150 parent
done

# A child that shares our memory is not profiled separately.
forks shared
shows shared parent off_cpu 800 child
shows shared parent cpu 50 child
[[ -z $(profiles_in "$WORK/shared.child") ]] || fail "a profile of a child that shares our memory"
