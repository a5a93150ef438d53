#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A host does everything at once that is known to hang or break profilers, and gets foreign signals with our number.
# Meanwhile exporters are stopped, slowed and killed at random. The host makes progress everywhere and leaves nothing
# behind. Two storms, with 100 and 1,000 samples per second, spare the host's own exporter, so every sample must be
# accounted for; the third kills that exporter too. A storm takes four seconds, and ten minutes in make soak.
# Runs alone: on a busy machine less happens in its time.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

readonly SECONDS_EACH=${SOAK_SECONDS:-4}
readonly STORM=$TEST_BUILD/test/storm/storm
readonly PLUGIN=$TEST_BUILD/test/storm/libstorm-plugin.so

# The kernel counts queued signals, including timers, by user and user namespace. In its own namespace the host is
# alone. Elsewhere other processes of the user come and go, and only a trend is reliable.
ALONE=(unshare --user --map-root-user)
queued_max=0
if ! "${ALONE[@]}" true 2>/dev/null; then
	ALONE=()
	queued_max=200
fi

# within NAME WHAT MOST
within()
{
	(($(value "$1" "$2") <= $3)) || fail "$1: $(value "$1" "$2") $2 are left"
}

# Each worker made progress: the watchdog requires one round a minute.
beats()
{
	awk '$1 == "beats" { n++; if ($3 == 0) bad = bad " " $2; text = text " " $2 " " $3 }
		END { print "rounds:" text; if (n == 0 || bad != "") { print "none:" bad; exit 1 } }' \
		"$WORK/$1.out" || fail "$1: some got nowhere"
}

# accounted NAME: the exporter outlived its host, drained every record that was put, and sent every record that it
# drained or counted it as lost. Records of CPU time between two samples are drained as well.
accounted()
{
	local pid status sent

	pid=$(value "$1" pid)
	status=$WORK/$1.status.$pid
	settled "$status" || fail "$1: the last samples are missing: $(cat "$status")"
	"${SO%/*}/spanprof-report" --json "$WORK/$1"/*-"$pid"-*.pb.gz >"$WORK/$1.json"
	sent=$(ask "$WORK/$1.json" 'd["total"]["samples"]')
	ask "$status" '"put %d, drained %d, ring full %d" % (d["samples"]["put"], d["samples"]["drained"], d["loss"]["dropped_ring_full"])'
	echo "sent $sent"
	expect "$status" "d['samples']['with_span'] + d['samples']['without_span'] == $sent + d['loss']['samples_in_lost_batches']"
	expect "$status" 'd["loss"]["ring_records_damaged"] == 0 and d["loss"]["files_failed"] == 0'
}

# If a thread was writing a record when the process ended, only the begin of the record is known.
settled()
{
	[[ $(ask "$1" 'd["samples"]["put"] - d["samples"]["drained"] in range(d["loss"]["ring_records_unfinished"] + 1)') == True ]]
}

# storm NAME RATE STOP_MS [KILL_AFTER_MS]: at its end it waits for a stopped exporter as long as allowed; otherwise
# the last samples would sometimes be missing.
storm()
{
	local name=$1 rate=$2 rc=0 harrier

	mkdir "$WORK/$name"
	python3 test/storm/harry.py "$WORK/$name" "${@:3}" >"$WORK/$name.harry" 2>&1 &
	harrier=$!
	STARTED+=("$harrier")
	timeout --kill-after=5 $((SECONDS_EACH + 120)) "${ALONE[@]}" env LD_PRELOAD="$SO" \
		SPANPROF_PROFILE=always SPANPROF_SAMPLE_RATE="$rate" SPANPROF_FLUSH_TIMEOUT=60s \
		SPANPROF_OUTPUT_DIR="$WORK/$name" SPANPROF_STATUS_FILE="$WORK/$name.status.%p" \
		"$STORM" "$SECONDS_EACH" "$PLUGIN" "$(kill -l URG)" \
		>"$WORK/$name.out" 2>"$WORK/$name.err" </dev/null || rc=$?
	kill "$harrier"
	wait "$harrier" || true
	echo "$rc" >"$WORK/$name.rc"
	[[ $rc == 23 ]] || cat "$WORK/$name.out"
	expect_rc "$name" 23
	sed 's/[0-9][0-9]*/N/' "$WORK/$name.err" | sort | uniq -c
	beats "$name"
	if grep -v 'spanprof\[' "$WORK/$name.err"; then
		fail "$name: that is not said without us"
	fi
	within "$name" children 0
	# The initial thread has one timer.
	within "$name" timers 1
	within "$name" queued "$queued_max"
	within "$name" descriptors 0
	# glibc keeps thread stacks and heaps at will; a leak would be one a round.
	within "$name" mappings 40
	cat "$WORK/$name.harry"
	grep -qx 'left 0' "$WORK/$name.harry" || fail "$name: exporters are left behind"
}

# Long storms stop an exporter for up to a minute.
stop_ms=$((SECONDS_EACH < 300 ? 1500 : 60000))
need python3
for rate in 100 1000 killed; do
	name=at$rate
	if [[ $rate == killed ]]; then
		# A host checks its exporter every hundred samples.
		storm "$name" 1000 "$stop_ms" $((SECONDS_EACH * 500))
		# An unknown number of samples is lost then, but there is a message.
		grep -q "^spanprof\[$(value "$name" pid)\]: the exporter ended" "$WORK/$name.err" ||
			fail "the host says nothing of its exporter's end"
	else
		storm "$name" "$rate" "$stop_ms"
		accounted "$name"
	fi
	echo "storm, $rate, $SECONDS_EACH s: watchdog clean; left: $(value "$name" timers) timers," \
		"$(value "$name" descriptors) descriptors, $(value "$name" mappings) mappings," \
		"$(value "$name" queued) in SigQ; $(profiles_in "$WORK/$name" | wc -l) profiles"
	# Files of thousands of short processes, which are not needed.
	rm -rf "${WORK:?}/$name" "$WORK/$name".status.*
done
