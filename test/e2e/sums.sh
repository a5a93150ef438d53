#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# For every way in which a process ends or its server fails: each sample was sent or is counted as lost, and the
# server has each sent sample exactly once.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3 curl
# How a host ends: orderly, killed, by executing another program.
ENDS=(return abort exec)
export SPANPROF_SAMPLE_RATE=250

# The exporter of that run has ended.
has_ended()
{
	! grep -qsz "^SPANPROF_STATUS_FILE=$WORK/$1.json$" /proc/[0-9]*/environ
}

# end_all NAME ADDRESS [VARIABLE=VALUE]...: runs every end, in parallel; $WORK/NAME.sums has the sums.
end_all()
{
	local name=$1 address=$2 how

	shift 2
	for how in "${ENDS[@]}"; do
		mkdir "$WORK/$name.$how.d"
		run_under "$name.$how" SPANPROF_SERVER_ADDRESS="$address" SPANPROF_OUTPUT_DIR="$WORK/$name.$how.d" \
			SPANPROF_STATUS_FILE="$WORK/$name.$how.json" "$@" "$HOSTS/ending" "$how" &
	done
	wait
	for how in "${ENDS[@]}"; do
		poll_until 20 has_ended "$name.$how" || fail "$name.$how: the exporter does not end"
		report "$WORK/$name.$how.d" "$WORK/$name.$how.files"
	done
	python3 - "$WORK/$name" "${ENDS[@]}" <<-'END' >"$WORK/$name.sums" || fail "$name"
		import collections, json, sys
		sums = collections.Counter()
		for how in sys.argv[2:]:
		    d = json.load(open("%s.%s.json" % (sys.argv[1], how)))
		    files = json.load(open("%s.%s.files" % (sys.argv[1], how)))
		    loss = d["loss"]
		    taken = d["samples"]["with_span"] + d["samples"]["without_span"]
		    sent = d["samples"]["sent"]
		    assert d["samples"]["put"] == d["samples"]["drained"] > 0, (how, d["samples"])
		    assert taken == sent + loss["samples_in_lost_batches"] > 0, (how, d)
		    assert taken == files["total"]["samples"], (how, taken, files["total"])
		    sums.update(taken=taken, sent=sent, ns=files["total"]["ns"],
		                unanswered=loss["batches_unanswered"], unsent=loss["batches_unsent_at_exit"],
		                rejected=loss["batches_rejected_by_server"], uploads=d["push"]["attempts"])
		print(json.dumps(sums))
	END
	rm -f "$WORK/$name.double"
	[[ -z ${DOUBLE_URL:-} ]] || {
		double_get /double/spans "$WORK/$name.double"
		double_get /double/stats "$WORK/$name.stats"
	}
}

sum()
{
	ask "$WORK/$1.sums" "d[\"$2\"]"
}

# The server takes up to a second, like the real one: nothing is lost, not a nanosecond of the last profile.
double_start --ack-delay 300-1000
ENDS+=(_exit exit_group)
end_all slow "$DOUBLE_URL"
ENDS=(return abort exec)
expect "$WORK/slow.sums" 'd["sent"] == d["taken"]'
expect "$WORK/slow.double" "d['total']['samples'] == $(sum slow sent)"
expect "$WORK/slow.double" "d['total']['ns'] == $(sum slow ns)"

# Answers that come too late or never: counted as lost, and stored once.
double_start --ack-delay 1500
end_all late "$DOUBLE_URL" SPANPROF_PUSH_TIMEOUT=400ms SPANPROF_UPLOAD_INTERVAL=200ms
expect "$WORK/late.sums" 'd["sent"] == 0 and d["unanswered"] > 0'
expect "$WORK/late.double" "0 < d['total']['samples'] <= $(sum late taken)"
expect "$WORK/late.stats" "d['accepted']['profiles'] == $(sum late unanswered)"

double_start --ack-delay 0 --fault stored_reset=1,count=0
end_all reset "$DOUBLE_URL" SPANPROF_UPLOAD_INTERVAL=200ms
expect "$WORK/reset.sums" 'd["sent"] == 0 and d["unanswered"] > 0'
expect "$WORK/reset.stats" "d['accepted']['profiles'] == $(sum reset unanswered)"

double_start --fault blackhole=1,count=0
end_all never "$DOUBLE_URL" SPANPROF_UPLOAD_INTERVAL=200ms SPANPROF_FLUSH_TIMEOUT=700ms
expect "$WORK/never.sums" 'd["sent"] == 0 and d["unanswered"] > 0'
expect "$WORK/never.double" 'd["profiles"] == 0'

# Some profiles are taken, some refused.
double_start --ack-delay 0 --fault status=400,count=1
end_all some "$DOUBLE_URL" SPANPROF_UPLOAD_INTERVAL=200ms
expect "$WORK/some.sums" 'd["rejected"] == 1 and d["sent"] > 0'
expect "$WORK/some.double" "d['total']['samples'] == $(sum some sent)"

unset DOUBLE_URL
end_all dead "http://127.0.0.1:$(refused_port)" SPANPROF_UPLOAD_INTERVAL=200ms
expect "$WORK/dead.sums" 'd["sent"] == 0 and d["unanswered"] == 0 and d["unsent"] > 0'
