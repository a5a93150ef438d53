#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# An exporter that is killed comes back, three times: samples go on to arrive under the right names, and
# the sums are those of the whole life of the process. The fourth time that is all.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3 curl pgrep
export SPANPROF_SAMPLE_RATE=250 SPANPROF_UPLOAD_INTERVAL=300ms
readonly STATUS=$WORK/status.json

# Process ids of exporters that serve our host.
exporters()
{
	local pid

	for pid in $(pgrep -x spanprof-export); do
		if grep -qsz "^SPANPROF_STATUS_FILE=$STATUS$" "/proc/$pid/environ"; then
			echo "$pid"
		fi
	done
}

no_exporter()
{
	[[ -z $(exporters) ]]
}

# There is one that is not $killed, and it has sent more than $sent samples.
sends_more()
{
	local now

	now=$(exporters)
	[[ -n $now && $now != "$killed" ]] || return 1
	now=$(sent)
	[[ -n $now ]] || return 1
	((now > sent))
}

# As the status file says; asked too often for Python.
sent()
{
	sed -n 's/^  "sent": \([0-9]*\).*/\1/p' "$STATUS" 2>/dev/null || true
}

mkfifo "$WORK/stdin"
double_start --ack-delay 0
mkdir "$WORK/out"
LD_PRELOAD=$SO SPANPROF_OUTPUT_DIR=$WORK/out SPANPROF_SERVER_ADDRESS=$DOUBLE_URL SPANPROF_STATUS_FILE=$STATUS \
	"$HOSTS/busy" <"$WORK/stdin" >"$WORK/busy.out" 2>"$WORK/busy.err" &
host=$!
exec 9>"$WORK/stdin"
killed=none
sent=0
for n in 1 2 3; do
	poll_until 30 sends_more || fail "exporter $n sends nothing: $(<"$WORK/busy.err")"
	killed=$(exporters)
	kill -KILL "$killed"
	sent=$(sent)
done
poll_until 30 sends_more || fail "the last exporter sends nothing: $(<"$WORK/busy.err")"
# Of the regions that were replaced the host keeps none.
has_one_region()
{
	[[ $(grep -c memfd:spanprof "/proc/$host/maps") == 1 ]]
}
poll_until 30 has_one_region || fail "regions: $(grep memfd:spanprof "/proc/$host/maps")"
exec 9>&-
rc=0
wait "$host" || rc=$?
((rc == 23)) || fail "exit status $rc"
poll_until 20 no_exporter || fail "an exporter is left"

for n in 1 2 3; do
	# What an exporter took and did not live to count is found later, and told in a line of its own.
	grep "the exporter ended" "$WORK/busy.err" | sed -n "${n}p" | grep -qE \
		"^spanprof\[[0-9]+\]: the exporter ended; started again \($n of 3 times\), what it had not sent is lost: [0-9]+ samples$" ||
		fail "line $n: $(<"$WORK/busy.err")"
done

# accounted FILE: what was put was drained, and that was sent, lost, or unsampled time, to the last record.
accounted()
{
	expect "$1" 'd["samples"]["put"] == d["samples"]["drained"] > 0'
	expect "$1" 'd["samples"]["drained"] == d["samples"]["sent"] + d["samples"]["unsampled"] + d["loss"]["samples_in_lost_batches"]'
}

accounted "$STATUS"
double_get /double/spans "$WORK/spans.json"
# One that is killed between the server's answer and its own count has sent more than it told.
expect "$WORK/spans.json" "d['total']['samples'] >= $(sent)"

# Each name is of the thread that had the span.
for n in 0 1 2 3 4 5 6 7; do
	build/spanprof-report --folded --span-name "thread-$n" "$WORK/out" >"$WORK/folded"
	[[ $(grep -c ";thread_$n" "$WORK/folded") == $(wc -l <"$WORK/folded") && -s $WORK/folded ]] ||
		fail "thread-$n: $(grep -v ";thread_$n" "$WORK/folded")"
done

# The same with a folder, and with waits. What an exporter had in its hands is told and counted.
ticks()
{
	awk '{ print $14 + $15 }' "/proc/$host/stat"
}

# There is one that is not $killed, and since it wrote a profile the program has worked for a while.
has_some_in_hands()
{
	local now

	now=$(exporters)
	[[ -n $now && $now != "$killed" && $(profiles_in "$WORK/folder" | wc -l) -gt $profiles ]] || return 1
	((since == 0)) && since=$(ticks)
	(($(ticks) > since + 40))
}

mkdir "$WORK/folder"
rm "$STATUS"
LD_PRELOAD=$SO SPANPROF_OUTPUT_DIR=$WORK/folder SPANPROF_STATUS_FILE=$STATUS SPANPROF_UPLOAD_INTERVAL=1s \
	SPANPROF_OFF_CPU=true SPANPROF_WALL=true "$HOSTS/busy" <"$WORK/stdin" >"$WORK/folder.out" 2>"$WORK/folder.err" &
host=$!
exec 9>"$WORK/stdin"
killed=none
for n in 1 2; do
	profiles=$(profiles_in "$WORK/folder" | wc -l)
	since=0
	poll_until 30 has_some_in_hands || fail "exporter $n writes nothing: $(<"$WORK/folder.err")"
	killed=$(exporters)
	kill -KILL "$killed"
done
profiles=$(profiles_in "$WORK/folder" | wc -l)
since=0
poll_until 30 has_some_in_hands || fail "the last exporter writes nothing: $(<"$WORK/folder.err")"
exec 9>&-
wait "$host" || true
poll_until 20 no_exporter || fail "an exporter is left"

accounted "$STATUS"
expect "$STATUS" 'd["off_cpu"]["waits"] == d["off_cpu"]["sent"] + d["off_cpu"]["lost"]'
told=$(sed -n 's/.*what it had not sent is lost: \([0-9]*\) samples.*/\1/p' "$WORK/folder.err" | awk '{ n += $1 } END { print n + 0 }')
((told > 0)) || fail "nothing was lost: $(<"$WORK/folder.err")"
expect "$STATUS" "$told <= d['loss']['samples_in_lost_batches']"
# One that is killed between a file and its own count has written more than it told.
report "$WORK/folder" "$WORK/folder.json"
files=$(ask "$WORK/folder.json" 'd["total"]["samples"]')
expect "$STATUS" "d['samples']['sent'] <= $files <= d['samples']['sent'] + $told"
