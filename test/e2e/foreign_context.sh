#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# If no SDK can be hooked, OpenTelemetry's thread context labels the samples: the context of the program itself, of
# one of its libraries, or of a library that it opens later. A false record costs a label, and does not harm the
# program.
# Runs alone: it judges shares of CPU time.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3
# Part of WORK_MS in test/hosts/publisher.c: the rest may belong to the first and the last sample.
readonly WORK_NS='60e6 * 0.6'
export SPANPROF_SAMPLE_RATE=500

# under NAME [VARIABLE=VALUE]... COMMAND...: runs it; NAME.json has the samples.
under()
{
	local name=$1

	shift
	mkdir "$WORK/$name"
	run_under "$name" SPANPROF_OUTPUT_DIR="$WORK/$name" SPANPROF_STATUS_FILE="$WORK/$name.status" "$@"
	expect_rc "$name" "${RC:-41}"
	expect_silent "$name"
	report "$WORK/$name" "$WORK/$name.json"
}

# labelled NAME SPAN_ID TRACE_ID: the span's work has its ids.
labelled()
{
	expect "$WORK/$1.json" "sum(s['ns'] for s in d['spans']
		if s['span_id'] == '$2' and s['trace_id'] == '$3') > $WORK_NS"
}

# all_spans NAME: the samples have all spans of the program, and no others.
all_spans()
{
	labelled "$1" 1111111111111111 eeeeeeeeeeeeeeee1111111111111111
	labelled "$1" 2222222222222222 dddddddddddddddd2222222222222222
	labelled "$1" 3333333333333330 cccccccccccccccf3333333333333330
	labelled "$1" 3333333333333331 ccccccccccccccce3333333333333331
	expect "$WORK/$1.json" "len({s['span_id'] for s in d['spans'] if s['span_id']}) == 4"
	# the rest of the work was outside of spans
	expect "$WORK/$1.json" "sum(s['ns'] for s in d['spans'] if s['span_id']) < 1.1 * 480e6"
	expect "$WORK/$1.status" 'd["thread_context"] == "read"'
}

under own "$HOSTS/publisher"
all_spans own
under own.heap PUBLISHER_HEAP=1 "$HOSTS/publisher"
all_spans own.heap
under linked PUBLISHER_HEAP=1 "$HOSTS/publisher_linked"
all_spans linked
under opens SPANPROF_ACTIVE_SPAN=context "$HOSTS/publisher_opens"
all_spans opens

# A library that another library's constructor opens is loaded before our constructor runs, and its thread-local
# storage has another offset in each thread.
under early "$HOSTS/publisher_opens_early"
all_spans early

# A library that is opened later is found if sampling goes on already, but does not start it.
under always SPANPROF_PROFILE=always "$HOSTS/publisher_opens"
all_spans always
run_under asleep SPANPROF_OUTPUT_DIR="$WORK" "$HOSTS/publisher_opens"
expect_rc asleep 41
[[ -z $(profiles_in "$WORK") ]] || fail 'sampled without a span'

# If another source of labels is configured, the context is not used.
run_under start SPANPROF_OUTPUT_DIR="$WORK" SPANPROF_ACTIVE_SPAN=start "$HOSTS/publisher"
expect_rc start 41
[[ -z $(profiles_in "$WORK") ]] || fail 'sampled without a span'
under scope SPANPROF_PROFILE=always SPANPROF_ACTIVE_SPAN=scope "$HOSTS/publisher_linked"
expect "$WORK/scope.json" "not [s for s in d['spans'] if s['span_id']]"

# Whatever the variable names, the program ends as without us.
under bad "$HOSTS/publisher" bad
expect "$WORK/bad.json" "{s['span_id'] for s in d['spans'] if s['span_id']} == {'4444444444444444'}"
labelled bad 4444444444444444 44444444444444444444444444444444

# If the publisher says which attribute has the local root's id, that id is the label, as elsewhere.
under roots PUBLISHER_UNNAMED=1 "$HOSTS/publisher" roots 2500
labelled roots 2000000000000002 dddddddddddddddd2222222222222222

# If a publisher names its process context, as it should, we notice it at once. Sampling begins, even for a library
# that is opened later, no sample has another label, and the profiles have the publisher's service.
declare -A HOW=([named]=A= [syscall]=PUBLISHER_SYSCALL=1)
for how in named syscall; do
	under "$how" "${HOW[$how]}" "$HOSTS/publisher_opens" roots 300
	labelled "$how" 2000000000000002 dddddddddddddddd2222222222222222
	expect "$WORK/$how.json" "{s['span_id'] for s in d['spans'] if s['span_id']} == {'2000000000000002'}"
	expect "$WORK/$how.status" '(d["thread_context"], d["service"]) == ("read", "library")'
done
mkdir "$WORK/unasked"
run_under unasked SPANPROF_ACTIVE_SPAN=scope SPANPROF_OUTPUT_DIR="$WORK/unasked" "$HOSTS/publisher_opens" roots 100
expect_rc unasked 41
[[ -z $(profiles_in "$WORK/unasked") ]] || fail 'sampled though scopes alone were asked for'

# A forked child begins by itself: no hook would report its first span.
under fork "$HOSTS/publisher" fork
labelled fork 5555555555555555 aaaaaaaaaaaaaaaa5555555555555555

# If that context is configured as the only source, spans of a hooked SDK label nothing.
RC=31 under hooked SPANPROF_ACTIVE_SPAN=context "$HOSTS/context" flip
expect "$WORK/hooked.json" "not [s for s in d['spans'] if s['span_id']]"
