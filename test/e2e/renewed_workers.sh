#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A server renews its workers, and its master records no span. The first worker starts an exporter
# and waits at its end for the push. That worker asks the master, and the master starts the next
# exporter before it forks. Later workers share that exporter and wait for no push. The master sees
# no child but its workers, and no sample is lost. The exporter ends after the master was killed.
# shellcheck disable=SC2119
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3
export SPANPROF_SAMPLE_RATE=250 SPANPROF_FLUSH_TIMEOUT=20s
readonly PUSH_MS=1500

# No other test executes this copy of the exporter.
mkdir -m 755 "$WORK/objects"
cp "$SO" "$EXPORTER" "$WORK/objects/"

# running: the process numbers of exporters that run.
running()
{
	local folder

	for folder in /proc/[0-9]*; do
		[[ ! $folder/exe -ef $WORK/objects/spanprof-exporter ]] || echo "${folder##*/}"
	done
}

# An exporter that sends something lives for as long as its push takes.
watch_exporters()
{
	while sleep 0.3; do
		running >>"$WORK/exporters"
	done
}

all_have_ended()
{
	[[ -z $(running) ]]
}

# serve NAME COUNT AT_ONCE: runs the server; it ends as without the profiler.
serve()
{
	local name=$1 rc=0

	: >"$WORK/exporters"
	mkdir "$WORK/$name.status"
	env LD_PRELOAD="$WORK/objects/libspanprof.so" SPANPROF_SERVER_ADDRESS="$DOUBLE_URL" \
		SPANPROF_STATUS_FILE="$WORK/$name.status/%p" "$HOSTS/renewed" "$2" "$3" 10 same \
		>"$WORK/$name.out" 2>"$WORK/$name.err" || rc=$?
	[[ $rc == 12 && ! -s $WORK/$name.err ]] || fail "$name: status $rc: $(<"$WORK/$name.err")"
	[[ $(wc -l <"$WORK/$name.out") == "$2" ]] || fail "$name: $(<"$WORK/$name.out")"
	poll_until 20 all_have_ended || fail "$name: exporters are left behind"
}

# expect_all_sent NAME: the exporters sent all samples of all workers.
expect_all_sent()
{
	python3 - "$WORK/$1.status" "$WORK/$1.out" <<'END' || fail "$1: not all was sent"
import json
import sys

pids = [line.split()[2] for line in open(sys.argv[2]) if line[0].isdigit()]
assert pids
for pid in pids:
    d = json.load(open(f"{sys.argv[1]}/{pid}"))
    s = d["samples"]
    assert s["put"] == s["drained"] and not any(d["loss"].values()), (pid, s, d["loss"])
    assert s["sent"] == s["with_span"] + s["without_span"], (pid, s)
END
}

# expect_shared NAME MOST: at most MOST exporters ran, and at most MOST workers waited for a push.
expect_shared()
{
	local name=$1 most=$2 started waited

	started=$(sort -u "$WORK/exporters" | wc -l)
	waited=$(awk -v us=$((PUSH_MS * 1000)) '$2 >= us' "$WORK/$name.out" | wc -l)
	((started > 0)) || fail "$name: nobody saw an exporter"
	echo "$name: $started exporters, $waited of $(wc -l <"$WORK/$name.out") workers waited for a push"
	((started <= most)) || fail "$name: $started exporters"
	((waited <= most)) || fail "$name: $waited workers waited: $(<"$WORK/$name.out")"
	expect_all_sent "$name"
}

double_start --ack-delay "$PUSH_MS"
: >"$WORK/exporters"
watch_exporters &
STARTED+=("$!")
serve serial 12 1
expect_shared serial 2
serve at_once 24 6
# While the first worker ends, another one may start an exporter before the master forks.
expect_shared at_once 4

# A killed master does not ask its exporter to end.
mkdir "$WORK/killed.status"
mkfifo "$WORK/go"
touch "$WORK/killed.out"
LD_PRELOAD="$WORK/objects/libspanprof.so" SPANPROF_SERVER_ADDRESS="$DOUBLE_URL" \
	SPANPROF_STATUS_FILE="$WORK/killed.status/%p" "$HOSTS/renewed" 4 1 10 stay <"$WORK/go" >"$WORK/killed.out" &
MASTER=$!
STARTED+=("$MASTER")
exec {GO}>"$WORK/go"
poll_until 20 grep -qx ready "$WORK/killed.out" || fail "killed: the workers do not end"
[[ $(running) =~ ^[0-9]+$ ]] || fail "killed: the master has no exporter"
kill -KILL "$MASTER"
wait "$MASTER" 2>/dev/null || true
poll_until 5 all_have_ended || fail "killed: the exporter stays"
exec {GO}>&-
expect_all_sent killed
expect_clean_double
