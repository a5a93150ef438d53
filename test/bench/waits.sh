#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The exporter's share of a processor while it looks at threads that wait in spans (SPANPROF_OFF_CPU), 50 times a
# second.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=test/bench/lib.bash
source test/bench/lib.bash

readonly EXPORTER=$PWD/build/spanprof-exporter
# One upload interval after the first one: the first one has the first stacks, and reads the symbols of each object.
readonly INTERVAL_S=10

# ours_ns PID: CPU time of all threads of the process, so far
ours_ns()
{
	cat /proc/"$1"/task/*/schedstat | awk '{ sum += $1 } END { if (NR == 0) exit 1; printf "%d\n", sum }'
}

has_one()
{
	[[ $(exporters_in "$WORK") =~ ^[0-9]+$ ]]
}

has_profile()
{
	compgen -G "$WORK/*off_cpu.pb.gz" >"$WORK/profiles"
}

# share THREADS SPAN_MS CONNECTIONS: percent of one processor; -1 connections: the threads wait for one lock
share()
{
	local exporter from to host targets=false

	(($3 <= 0)) || targets=true
	SPANPROF_OFF_CPU=true SPANPROF_OFF_CPU_TARGETS=$targets SPANPROF_OUTPUT_DIR=$WORK \
		SPANPROF_UPLOAD_INTERVAL=${INTERVAL_S}s SPANPROF_STATUS_FILE=$WORK/status LD_PRELOAD=$OBJECT \
		"$BENCH/waits" "$1" "$2" $((3 * INTERVAL_S)) "$3" 2>"$WORK/stderr" &
	host=$!
	poll_until $((2 * INTERVAL_S)) has_profile
	# The names are known when the next samples come.
	sleep 1
	# The program may have been running before its exporter.
	has_one || { echo "waits.sh: $1 threads have no exporter" >&2; return 1; }
	exporter=$(exporters_in "$WORK")
	from=$(ours_ns "$exporter") || return
	sleep "$INTERVAL_S"
	to=$(ours_ns "$exporter") || return
	wait "$host" || { echo "waits.sh: the host of $1 threads failed" >&2; return 1; }
	poll_until 30 has_ended
	rm "$WORK"/*.pb.gz
	awk -v ns="$((to - from))" -v s="$INTERVAL_S" 'BEGIN { printf "%.1f", ns / s / 1e7 }'
}

has_ended()
{
	[[ -z $(exporters_in "$WORK") ]]
}

echo 'the exporter, of one processor, beside threads that wait in spans:'
while read -r threads span_ms connections target; do
	percent=$(share "$threads" "$span_ms" "$connections") || exit 1
	where=
	((connections <= 0)) || where=" for $connections connections, by their names"
	((connections >= 0)) || where=" and hold one lock in turn"
	printf '  %4d threads, spans of %4d ms%s   %5.1f %%   %s\n' "$threads" "$span_ms" "$where" "$percent" \
		"$(answer "the exporter beside $threads threads that wait in spans of $span_ms ms$where, of one processor" \
			"$percent" % "$target")"
done <<'END'
24 100 0 2
200 100 0 2
1000 100 0 2
1000 2 -1 2
100 100 4000 10
END
