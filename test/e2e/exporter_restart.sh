#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A killed exporter comes back, three times: samples still arrive under the right names, and the sums cover the whole
# life of the process. There is no fifth exporter.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3 curl pgrep
export SPANPROF_SAMPLE_RATE=250 SPANPROF_UPLOAD_INTERVAL=300ms
readonly STATUS=$WORK/status.json

# The process ids of exporters that serve our host.
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

# There is an exporter other than $killed, and more than $sent samples were sent.
sends_more()
{
	local now

	now=$(exporters)
	[[ -n $now && $now != "$killed" ]] || return 1
	now=$(sent)
	[[ -n $now ]] || return 1
	((now > sent))
}

# As the status file says; starting Python for each question would be too slow.
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
# The host does not keep replaced regions.
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
	# Samples that an exporter took but did not count are found later, and reported in a separate line.
	grep "the exporter ended" "$WORK/busy.err" | sed -n "${n}p" | grep -qE \
		"^spanprof\[[0-9]+\]: the exporter ended; started again \($n of 3 times\), what it had not sent is lost: [0-9]+ samples$" ||
		fail "line $n: $(<"$WORK/busy.err")"
done

# accounted FILE: all records that were put were drained, and all drained ones are sent, lost, or unsampled time.
accounted()
{
	expect "$1" 'd["samples"]["put"] == d["samples"]["drained"] > 0'
	expect "$1" 'd["samples"]["drained"] == d["samples"]["sent"] + d["samples"]["unsampled"] + d["loss"]["samples_in_lost_batches"]'
}

accounted "$STATUS"
double_get /double/spans "$WORK/spans.json"
# An exporter that is killed between the server's answer and its own count has sent more than it counted.
expect "$WORK/spans.json" "d['total']['samples'] >= $(sent)"

# Each name belongs to the thread that had the span. A name whose samples an exporter had is told of measured roots.
for n in 0 1 2 3 4 5 6 7; do
	build/spanprof-report --folded --span-name "thread-$n" "$WORK/out" | sed '/^\[unsampled cpu\] /d' >"$WORK/folded"
	[[ $(grep -c ";thread_$n" "$WORK/folded") == $(wc -l <"$WORK/folded") && -s $WORK/folded ]] ||
		fail "thread-$n: $(grep -v ";thread_$n" "$WORK/folded")"
done

# The same with a folder, and with waits. The samples that an exporter held are reported and counted.
ticks()
{
	awk '{ print $14 + $15 }' "/proc/$host/stat"
}

# There is an exporter other than $killed, and the program has worked for a while since its last profile.
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
# An exporter that is killed between a file and its own count has written more than it counted.
report "$WORK/folder" "$WORK/folder.json"
files=$(ask "$WORK/folder.json" 'd["total"]["samples"]')
expect "$STATUS" "d['samples']['sent'] <= $files <= d['samples']['sent'] + $told"
