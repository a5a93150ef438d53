#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A host that does everything at once that is known to hang or break profilers, and is struck by
# foreign signals of our number, gets everywhere and leaves nothing behind, while exporters are stopped,
# slowed and killed at random: at 100 and 1,000 Hz with its own exporter spared, so that
# every sample is accounted for, and once with that killed. Four seconds each; make soak takes ten minutes each.
# Runs alone: what it finds depends on how much happens in its time.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

readonly SECONDS_EACH=${SOAK_SECONDS:-4}
readonly STORM=$TEST_BUILD/test/storm/storm
readonly PLUGIN=$TEST_BUILD/test/storm/libstorm-plugin.so

# The kernel counts queued signals, and timers as such, by user and user namespace: in one of its own
# the host sees its own alone. Elsewhere others of the user come and go, and only a trend says much.
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

# Each worker got somewhere: the watchdog is content with one round a minute.
beats()
{
	awk '$1 == "beats" { n++; if ($3 == 0) bad = bad " " $2; text = text " " $2 " " $3 }
		END { print "rounds:" text; if (n == 0 || bad != "") { print "none:" bad; exit 1 } }' \
		"$WORK/$1.out" || fail "$1: some got nowhere"
}

# accounted NAME: the exporter lived until after its host, drained what was put and sent what it drained,
# but for what it counts as lost. Records of CPU time between two samples are drained as well.
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

# Of a record that a thread was writing when the process ended nothing is left but that it was begun.
settled()
{
	[[ $(ask "$1" 'd["samples"]["put"] - d["samples"]["drained"] in range(d["loss"]["ring_records_unfinished"] + 1)') == True ]]
}

# storm NAME RATE STOP_MS [KILL_AFTER_MS]: at its end it waits for an exporter that is stopped as long as it may,
# or the last samples would be missing now and then.
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
	# The initial thread's.
	within "$name" timers 1
	within "$name" queued "$queued_max"
	within "$name" descriptors 0
	# glibc keeps thread stacks and heaps as it likes; a leak would be one a round.
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
		# A host looks after its exporter every hundred samples.
		storm "$name" 1000 "$stop_ms" $((SECONDS_EACH * 500))
		# Samples are lost then, how many nobody can know; but not in silence.
		grep -q "^spanprof\[$(value "$name" pid)\]: the exporter ended" "$WORK/$name.err" ||
			fail "the host says nothing of its exporter's end"
	else
		storm "$name" "$rate" "$stop_ms"
		accounted "$name"
	fi
	echo "storm, $rate, $SECONDS_EACH s: watchdog clean; left: $(value "$name" timers) timers," \
		"$(value "$name" descriptors) descriptors, $(value "$name" mappings) mappings," \
		"$(value "$name" queued) in SigQ; $(profiles_in "$WORK/$name" | wc -l) profiles"
	# What thousands of short processes leave here is not needed.
	rm -rf "${WORK:?}/$name" "$WORK/$name".status.*
done
