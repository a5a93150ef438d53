#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# No process waits for a stopped exporter: neither forked children at their end, nor the host.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

export SPANPROF_SAMPLE_RATE=250

is_ready()
{
	grep -qx ready "$WORK/$1.out" && [[ -s $WORK/$1/$HOST.status ]]
}

# start NAME [VARIABLE=VALUE]... HOST ARGUMENT...: runs it until it is about to fork, with profiles in $WORK/NAME.
start()
{
	local name=$1

	shift
	mkdir "$WORK/$name"
	mkfifo "$WORK/$name.in"
	touch "$WORK/$name.out"
	env LD_PRELOAD="$SO" SPANPROF_OUTPUT_DIR="$WORK/$name" \
		SPANPROF_STATUS_FILE="$WORK/$name/%p.status" "$@" <"$WORK/$name.in" >"$WORK/$name.out" \
		2>"$WORK/$name.err" &
	HOST=$!
	STARTED+=("$HOST")
	exec {GO}>"$WORK/$name.in"
	poll_until 20 is_ready "$name" || fail "$name: not ready: $(<"$WORK/$name.err")"
}

has_ended()
{
	! kill -0 "$HOST" 2>/dev/null
}

# finish NAME SECONDS: lets it fork; it ends within that time, as it would without us.
finish()
{
	local rc=0

	echo >&"$GO"
	exec {GO}>&-
	poll_until "$2" has_ended || fail "$1: did not end in $2 s: $(<"$WORK/$1.out")"
	wait "$HOST" || rc=$?
	[[ $rc == 12 ]] || fail "$1: exit status $rc: $(<"$WORK/$1.err")"
}

none_left()
{
	[[ -z $(exporters_in "$WORK") ]]
}

# If the exporter is stopped, no process waits for it: neither children with samples, nor the host at its end.
start stopped "$HOSTS/forks" 300 5 end
exporter=$(exporters_in "$WORK/stopped")
kill -STOP "$exporter"
# If each child waited, the test would take minutes; without waits a busy machine may need 20 s.
finish stopped 60
# The exporter was stopped before the host's end. It must end, because no process may inherit it.
poll_until 20 none_left || fail "stopped: the exporter does not end"
