#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What the exporter takes of a processor while it looks at threads that wait in spans (SPANPROF_OFF_CPU), 50 times
# a second.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=test/bench/lib.bash
source test/bench/lib.bash

readonly EXPORTER=$PWD/build/spanprof-exporter
# The first seconds are those of names and of the first stacks.
readonly BEGIN_S=3 MEASURED_S=10

# ticks PID: of CPU time, so far
ticks()
{
	awk '{ sub(/.*\) /, ""); print $12 + $13 }' "/proc/$1/stat"
}

has_one()
{
	[[ $(exporters_in "$WORK") =~ ^[0-9]+$ ]]
}

# share THREADS SPAN_MS CONNECTIONS: percent of one processor
share()
{
	local exporter from to host targets=false

	(($3 == 0)) || targets=true
	SPANPROF_OFF_CPU=true SPANPROF_OFF_CPU_TARGETS=$targets SPANPROF_OUTPUT_DIR=$WORK \
		SPANPROF_STATUS_FILE=$WORK/status LD_PRELOAD=$OBJECT \
		"$BENCH/waits" "$1" "$2" $((BEGIN_S + MEASURED_S + 2)) "$3" 2>"$WORK/stderr" &
	host=$!
	poll_until 10 has_one
	exporter=$(exporters_in "$WORK")
	sleep "$BEGIN_S"
	from=$(ticks "$exporter")
	sleep "$MEASURED_S"
	to=$(ticks "$exporter")
	wait "$host"
	poll_until 30 has_ended
	awk -v ticks="$((to - from))" -v hz="$(getconf CLK_TCK)" -v s="$MEASURED_S" \
		'BEGIN { printf "%.1f", 100 * ticks / hz / s }'
}

has_ended()
{
	[[ -z $(exporters_in "$WORK") ]]
}

echo 'the exporter, of one processor, beside threads that wait in spans:'
while read -r threads span_ms connections target; do
	percent=$(share "$threads" "$span_ms" "$connections")
	where=
	((connections == 0)) || where=" for $connections connections, by their names"
	printf '  %4d threads, spans of %4d ms%s   %5.1f %%   %s\n' "$threads" "$span_ms" "$where" "$percent" \
		"$(answer "the exporter beside $threads threads that wait in spans of $span_ms ms$where, of one processor" \
			"$percent" % "$target")"
done <<'END'
10 5000 0 1
100 5000 0 3
1000 5000 0 10
10 100 0 2
100 100 0 10
1000 100 0 15
100 100 4000 10
END
