#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The exporter of a prefork server: memory, descriptors and threads with 1, 20 and 200 workers that have each recorded
# a span, while they wait.
#   test/bench/family.sh [WORKERS]...
# shellcheck disable=SC2119
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=test/bench/lib.bash
source test/bench/lib.bash

readonly EXPORTER=$PWD/build/spanprof-exporter

are_served()
{
	[[ $(find "$WORK/status.$1" -type f | wc -l) == "$1" ]]
}

have_ended()
{
	[[ -z $(exporters_in "$WORK") ]]
}

# kib FIELD PID
kib()
{
	awk -v field="$1:" '$1 == field { print $2 }' "/proc/$2/smaps_rollup"
}

# measure WORKERS: a row of the table.
measure()
{
	local workers=$1 all pid host go memory

	: >"$WORK/out.$workers"
	mkdir "$WORK/status.$workers"
	mkfifo "$WORK/go.$workers"
	LD_PRELOAD=$OBJECT SPANPROF_SERVER_ADDRESS=$DOUBLE_URL SPANPROF_UPLOAD_INTERVAL=2s \
		SPANPROF_STATUS_FILE="$WORK/status.$workers/%p" build/test/hosts/family "$workers" \
		<"$WORK/go.$workers" >"$WORK/out.$workers" &
	host=$!
	STARTED+=("$host")
	exec {go}>"$WORK/go.$workers"
	poll_until 120 grep -qx ready "$WORK/out.$workers"
	poll_until 60 are_served "$workers"
	all=$(exporters_in "$WORK")
	# After one upload interval it has read all symbols that it needs.
	sleep 4
	for pid in $all; do
		memory=$(kib Private_Dirty "$pid")
		echo "| $workers | $(wc -w <<<"$all") | $((memory / 1024)) MiB | $((memory / workers)) KiB |" \
			"$(find "/proc/$pid/fd" -type l | wc -l) | $(find "/proc/$pid/task" -maxdepth 1 | tail -n +2 | wc -l) |"
	done
	exec {go}>&-
	wait "$host" || true
	poll_until 60 have_ended
}

double_start
echo "| workers | exporters | private memory | for each worker | descriptors | threads |"
echo "|---|---|---|---|---|---|"
for workers in "${@:-1 20 200}"; do
	for one in $workers; do
		measure "$one"
	done
done
