#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The exporter's share of a processor with idle processes and threads: workers of a prefork server that have each
# recorded a span, and wait; and threads of one process. BENCH_SECONDS=n observes it for n seconds instead of 30.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=test/bench/lib.bash
source test/bench/lib.bash
# shellcheck source=test/common/exporter.bash
source test/common/exporter.bash

readonly WATCH_S=${BENCH_SECONDS:-30} TARGET_PERCENT=0.3

# ours_ns PID: CPU time of all threads of the exporter.
ours_ns()
{
	cat /proc/"$1"/task/*/schedstat | awk '{ sum += $1 } END { printf "%d\n", sum }'
}

# sampled: a process with samples: the first worker, or the host itself.
sampled()
{
	awk '$1 == "worker" { print $2; exit }' "$WORK/out" | grep . || echo "$host"
}

is_served()
{
	exporter=$(exporter_of "$(sampled)")
}

has_ended()
{
	! kill -0 "$exporter" 2>/dev/null
}

# share QUESTION PROGRAM...: a row, after the first upload interval.
share()
{
	local question=$1 host go exporter from started percent

	shift
	: >"$WORK/out"
	rm -f "$WORK/go"
	mkfifo "$WORK/go"
	LD_PRELOAD=$OBJECT SPANPROF_OUTPUT_DIR=$WORK/profiles "$@" <"$WORK/go" >"$WORK/out" 2>/dev/null &
	host=$!
	STARTED+=("$host")
	exec {go}>"$WORK/go"
	poll_until 120 grep -qx ready "$WORK/out"
	poll_until 20 is_served
	sleep 20
	from=$(ours_ns "$exporter")
	started=${EPOCHREALTIME/./}
	sleep "$WATCH_S"
	percent=$(awk -v ns=$(($(ours_ns "$exporter") - from)) -v us=$((${EPOCHREALTIME/./} - started)) \
		'BEGIN { printf "%.2f", ns / us / 10 }')
	exec {go}>&-
	wait "$host" || true
	poll_until 60 has_ended
	printf '  %-24s %6s %%   %s\n' "$question" "$percent" \
		"$(answer "the exporter beside $question, of one processor" "$percent" % $TARGET_PERCENT)"
}

echo "the exporter, of one processor, over $WATCH_S s:"
share '1 idle process' build/test/hosts/family 1
share '100 idle processes' build/test/hosts/family 100
share '300 idle processes' build/test/hosts/family 300
share '1,000 idle threads' env SPANPROF_PROFILE=always "$BENCH/threads" idle 1000
