#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A prefork server whose master records no span has one exporter for all its workers. The samples of all workers
# arrive, in a folder and at a server that takes up to a second to answer each push, though all workers end together.
# The exporter ends with the server. For idle workers it opens almost no files.
# shellcheck disable=SC2119
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3 strace
readonly WORKERS=${FAMILY_WORKERS:-24}

all_have_ended()
{
	[[ -z $(exporters_in "$WORK") ]]
}

# start NAME VARIABLE=VALUE...: starts the server, which ends when its standard input ($GO) is closed.
start()
{
	local name=$1

	shift
	mkdir "$WORK/$name.status"
	mkfifo "$WORK/$name.go"
	env LD_PRELOAD="$SO" SPANPROF_SAMPLE_RATE=250 SPANPROF_FLUSH_TIMEOUT=30s \
		SPANPROF_STATUS_FILE="$WORK/$name.status/%p" "$@" "$HOSTS/family" "$WORKERS" \
		<"$WORK/$name.go" >"$WORK/$name.out" 2>"$WORK/$name.err" &
	SERVER=$!
	STARTED+=("$SERVER")
	exec {GO}>"$WORK/$name.go"
	poll_until 60 grep -qx ready "$WORK/$name.out" || fail "$name: the workers do not finish"
}

# finish NAME
finish()
{
	local rc=0

	exec {GO}>&-
	wait "$SERVER" || rc=$?
	[[ $rc == 12 ]] || fail "$1: exit status $rc: $(cat "$WORK/$1.err")"
	# With a slow server the last worker may report that; below we check that nothing was lost.
	! grep -v 'before the server has taken the last' "$WORK/$1.err" >"$WORK/said" || fail "$1: it says: $(<"$WORK/said")"
	poll_until 20 all_have_ended || fail "$1: exporters are left behind"
}

has_status()
{
	[[ $(find "$WORK/$1.status" -type f | wc -l) == "$WORKERS" ]]
}

# serve NAME VARIABLE=VALUE...: starts and ends the server; one exporter serves all.
serve()
{
	local name=$1 all pid

	start "$@"
	poll_until 20 has_status "$name" || fail "$name: not all workers are served: $(exporters_in "$WORK")"
	all=$(exporters_in "$WORK")
	[[ $all =~ ^[0-9]+$ ]] || fail "$name: $WORKERS workers have these exporters: $all"
	# The log says for each of them that it is served.
	while read -r _ pid; do
		build/spanprof-report --status "$pid" >"$WORK/told" 2>&1 || fail "$name: $(<"$WORK/told")"
		grep -q '^state *active: ' "$WORK/told" || fail "$name: worker $pid is told of as: $(<"$WORK/told")"
	done < <(grep '^worker ' "$WORK/$name.out" | head -n 3)
	finish "$name"
	grep -q '"with_span": [1-9]' "$WORK/$name.status"/* || fail "$name: no worker has a sample in its span"
	for file in "$WORK/$name.status"/*; do
		# On a busy machine no tick of the kernel may hit a worker's 50 ms.
		expect "$file" "d['samples']['put'] == d['samples']['drained'] > 0"
		expect "$file" "d['state'] == 'ending' and not any(d['loss'].values())"
	done
}

mkdir "$WORK/profiles"
serve folder SPANPROF_OUTPUT_DIR="$WORK/profiles"
# Each worker has a profile of its own.
for file in "$WORK"/folder.status/*; do
	pid=${file##*/}
	build/spanprof-report --json "$WORK/profiles"/*-"$pid"-*.pb.gz >"$WORK/one.json"
	# One sample may have come just after the span's end.
	expect "$file" "d['samples']['with_span'] == $(ask "$WORK/one.json" 'd["labelled"]["samples"]')"
	expect "$file" "d['samples']['with_span'] + d['samples']['without_span'] == $(ask "$WORK/one.json" 'd["total"]["samples"]')"
done

double_start
serve server SPANPROF_SERVER_ADDRESS="$DOUBLE_URL"
for file in "$WORK"/server.status/*; do
	expect "$file" "d['samples']['sent'] == d['samples']['with_span'] + d['samples']['without_span']"
done
expect_clean_double

# opens_little: the exporter opens files of /proc/PID relative to an open folder, less than once a second for each
# worker.
opens_little()
{
	local opened

	timeout 3 strace -qq -e trace=openat -o "$WORK/opened" -p "$(exporters_in "$WORK")" || true
	opened=$(grep -c 'openat([0-9]' "$WORK/opened" || true)
	((opened < WORKERS * 3))
}

if strace -o /dev/null true 2>/dev/null; then
	mkdir "$WORK/idle.profiles"
	start idle SPANPROF_OUTPUT_DIR="$WORK/idle.profiles"
	poll_until 20 has_status idle || fail "idle: not all workers are served"
	poll_until 20 opens_little ||
		fail "idle: in three seconds beside $WORKERS workers: $(sort "$WORK/opened" | uniq -c | sort -rn | head -n 3)"
	finish idle
fi
