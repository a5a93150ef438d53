#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A prefork server whose master records no span has one exporter for all of its workers where profiles go into
# a folder, and what each of them sampled arrives there. It ends with the server.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3
readonly WORKERS=${FAMILY_WORKERS:-24}

all_have_ended()
{
	[[ -z $(exporters_in "$WORK") ]]
}

# start NAME [VARIABLE=VALUE]...: the server, until its standard input ($GO) is closed.
start()
{
	local name=$1

	shift
	mkdir "$WORK/$name.status" "$WORK/$name.profiles"
	mkfifo "$WORK/$name.go"
	env LD_PRELOAD="$SO" SPANPROF_OUTPUT_DIR="$WORK/$name.profiles" SPANPROF_SAMPLE_RATE=250 \
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
	[[ ! -s $WORK/$1.err ]] || fail "$1: it says: $(cat "$WORK/$1.err")"
	poll_until 20 all_have_ended || fail "$1: exporters are left behind"
}

has_status()
{
	[[ $(find "$WORK/$1.status" -type f | wc -l) == "$WORKERS" ]]
}

start calm
poll_until 20 has_status calm || fail "not all workers are served: $(exporters_in "$WORK")"
all=$(exporters_in "$WORK")
[[ $all =~ ^[0-9]+$ ]] || fail "$WORKERS workers have these exporters: $all"
# Each of them is told to be served.
while read -r _ pid; do
	build/spanprof-run --facts --pid "$pid" >"$WORK/facts"
	grep -qx 'active yes' "$WORK/facts" || fail "worker $pid is told of as: $(<"$WORK/facts")"
done < <(grep '^worker ' "$WORK/calm.out" | head -n 3)
finish calm
# Each worker has a profile of its own, and nothing was lost.
for file in "$WORK"/calm.status/*; do
	expect "$file" "d['samples']['put'] == d['samples']['drained']"
	pid=${file##*/}
	build/spanprof-report --json "$WORK/calm.profiles"/*-"$pid"-*.pb.gz >"$WORK/one.json"
	# One may have been taken just after the span's end.
	expect "$file" "d['samples']['with_span'] == $(ask "$WORK/one.json" 'd["labelled"]["samples"]') > 0"
	expect "$file" "d['samples']['with_span'] + d['samples']['without_span'] == $(ask "$WORK/one.json" 'd["total"]["samples"]')"
	expect "$file" "d['state'] == 'ending' and not any(d['loss'].values())"
done
