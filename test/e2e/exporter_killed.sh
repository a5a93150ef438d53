#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# An exporter is killed at any step of its work: the host ends as without us, and each sample was sent or is reported
# as lost, by the next exporter or without one. By default some steps are tried. KILL_AT=steps tries all those below
# (make soak does), KILL_AT=FUNCTION... others, and KILL_AT=all each function of the exporter.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3 curl nm
export SPANPROF_SAMPLE_RATE=250 SPANPROF_FLUSH_TIMEOUT=10s

# Functions at the steps of a profile, in order: the exporter joins, drains, encodes, pushes, gets an answer.
STEPS=(sp_view_open sp_stack_map_put sp_encode sp_http_start sp_reply_good)
# The same with a profile that is made only when the host ends.
LAST_STEPS=(sp_target_finish sp_http_start sp_waiter_flushed)
if [[ ${KILL_AT:-} == steps ]]; then
	KILL_AT=
	STEPS=(
		sp_limits_detach sp_view_open sp_worker_start sp_target_init # before it has joined
		sp_stack_map_put sp_interval_new sp_worker_put               # between the ring and the worker
		sp_interval_want sp_symbolizer_step sp_interval_name         # between the worker and the profile
		sp_encode sp_gzip_pack
		sp_push_put sp_request_make sp_http_start                    # before a push
		sp_reply_good sp_status_write                                # between the answer to a push and the next one
		sp_http_wait                                                 # beside all of these
	)
	LAST_STEPS=(sp_target_finish sp_interval_new sp_encode sp_http_start sp_reply_good sp_waiter_flushed
		sp_target_retire sp_member_close sp_worker_stop sp_watch_stop)
fi

cat >"$WORK/exporter" <<END
#!/bin/sh
echo \$\$ >>"$WORK/started"
mkdir "$WORK/dies.once" 2>/dev/null && exec "$WORK/dies"
exec "$EXPORTER"
END
chmod 755 "$WORK/exporter"
OBJECT=$(object_with "$WORK/object" "$WORK/exporter")
readonly OBJECT

no_exporter()
{
	! xargs -r ps -o pid= -p <"$WORK/started" | grep -q .
}

# The number of sent samples in the status file. Starting Python to read it would be too slow.
sent()
{
	sed -n 's/^  "sent": \([0-9]*\).*/\1/p' "$WORK/status" 2>/dev/null || true
}

ticks()
{
	awk '{ print $14 + $15 }' "/proc/$host/stat"
}

# The first exporter has ended, and the second one sends; or there is no second one.
has_gone_on()
{
	[[ ! -s $WORK/err ]] || ! grep -q 'not profiling this process' "$WORK/err" || return 0
	[[ $(wc -l <"$WORK/started") == 2 ]] || return 1
	[[ -s $WORK/err && $(sent) -gt ${at_death:=$(sent)} ]]
}

# Not every function is a step of each profile: then the first exporter has done its work several times.
has_been_spared()
{
	[[ $(sent) -gt 300 && $(wc -l <"$WORK/started") == 1 ]] || has_gone_on
}

# kill_at FUNCTION INTERVAL WHEN...: the host ends when WHEN is true.
kill_at()
{
	local rc=0 lost late received host at_death=

	rm -rf "$WORK/status" "$WORK/dies.once"
	: >"$WORK/started"
	python3 test/e2e/kill_at.py "$EXPORTER" "$1" "$WORK/dies" || return 1
	LD_PRELOAD=$OBJECT SPANPROF_STATUS_FILE=$WORK/status SPANPROF_UPLOAD_INTERVAL=$2 \
		SPANPROF_SERVER_ADDRESS=$DOUBLE_URL "$HOSTS/busy" <"$WORK/stdin" >"$WORK/out" 2>"$WORK/err" &
	host=$!
	exec 9>"$WORK/stdin"
	poll_until 60 "${@:3}" || fail "$1, $2: does not go on: $(<"$WORK/err"), $(<"$WORK/started")"
	exec 9>&-
	wait "$host" || rc=$?
	((rc == 23)) || fail "$1, $2: exit status $rc"
	[[ ! -s $WORK/out ]] || fail "$1, $2: $(<"$WORK/out")"
	poll_until 20 no_exporter || fail "$1, $2: an exporter is left"

	# At most one line.
	if grep -q "cannot start the exporter (.*: it ended at once): not profiling this process$" "$WORK/err"; then
		[[ $(wc -l <"$WORK/err") == 1 ]] || fail "$1, $2: $(<"$WORK/err")"
		return
	fi
	# On a busy machine the killed exporter may take its time to end.
	sed -i '/: cannot set up sampling (the former exporter has not ended yet): trying again for some minutes$/d
		s/: the exporter could be started after all, what/: the exporter ended; started again (1 of 3 times), what/' "$WORK/err"
	lost=$(sed -n 's/^spanprof\[[0-9]*\]: the exporter ended; started again (1 of 3 times), what it had not sent is lost: \([0-9]*\) samples$/\1/p' "$WORK/err")
	# Records that threads put while the loss is counted are counted later (sp_region_swap_count_late()): at most one
	# sample of each thread, and the host has nine.
	late=$(sed -n 's/^spanprof\[[0-9]*\]: \([0-9]*\) samples* lost before a profile was made of [a-z]*$/\1/p' "$WORK/err")
	[[ $(wc -l <"$WORK/err") == $((${lost:+1} + 0 + ${late:+1} + 0)) && (-n $lost || -z $late) ]] || fail "$1, $2: $(<"$WORK/err")"
	((${late:-0} <= 9)) || fail "$1, $2: $late samples are told late"
	lost=$((${lost:-0} + ${late:-0}))
	expect "$WORK/status" 'd["samples"]["put"] == d["samples"]["drained"] > 0'
	expect "$WORK/status" "d['samples']['drained'] == d['samples']['sent'] + d['samples']['unsampled'] + d['loss']['samples_in_lost_batches']"
	expect "$WORK/status" "d['loss']['samples_in_lost_batches'] >= $lost"
	# An exporter that is killed between the server's answer and its own count has sent more than it counted.
	double_get /double/spans "$WORK/spans.json"
	received="d['pids'].get('$host', {}).get('samples', 0)"
	expect "$WORK/spans.json" "$(sent) <= $received <= $(sent) + $lost"
}

has_worked()
{
	[[ -s $WORK/started && $(ticks) -gt 20 ]]
}

mkfifo "$WORK/stdin"
double_start --ack-delay 20
if [[ ${KILL_AT:-} == all ]]; then
	KILL_AT=$(nm --defined-only "$EXPORTER" | sed -n 's/.* t \(sp_[a-z0-9_]*\)$/\1/p')
fi
for step in ${KILL_AT:-}; do
	kill_at "$step" 200ms has_been_spared || continue
	kill_at "$step" 10m has_worked
	echo "$step: $(wc -l <"$WORK/started")"
done
[[ -z ${KILL_AT:-} ]] || exit 0
for step in "${STEPS[@]}"; do
	kill_at "$step" 200ms has_gone_on
done
for step in "${LAST_STEPS[@]}"; do
	kill_at "$step" 10m has_worked
done
