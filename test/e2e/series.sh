#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A server makes a series of each set of labels, without span_id and trace_id. Holders of locks make no series, forked
# children a bounded number, and each label can be left out. The folder beside the server has all labels.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3 curl

# series EXPRESSION: about the double's series, after a clean run.
series()
{
	# shellcheck disable=SC2119
	expect_clean_double
	expect "$WORK/stats.json" "$1"
	double_get /double/spans "$WORK/spans.json"
}

# texts FOLDER TEXT: the number of profiles in the folder that contain it.
texts()
{
	local file n=0

	for file in "$1"/*.pb.gz; do
		! zcat "$file" | grep -qa "$2" || n=$((n + 1))
	done
	echo "$n"
}

# Two names of spans, and time outside of spans; CPU and waiting time, each with samples and nanoseconds.
readonly NAMES='normal,std_mutex'
for protocol in push otlp; do
	double_start --ack-delay 0 --store "$WORK/$protocol"
	mkdir "$WORK/folder.$protocol"
	run_under "locks.$protocol" SPANPROF_SERVER_ADDRESS="$DOUBLE_URL" SPANPROF_PROTOCOL="$protocol" SPANPROF_OFF_CPU=true \
		SPANPROF_OUTPUT_DIR="$WORK/folder.$protocol" "$HOSTS/locks" 8 60 "$NAMES"
	expect_rc "locks.$protocol" 0
	series 'd["series"] <= 3 * 4'
	(($(texts "$WORK/folder.$protocol" blocked_by_span_id) > 0)) || fail "$protocol: nobody held a lock"
	! grep -qa blocked_by_span_id "$WORK/$protocol"/*.pb || fail "$protocol: the server has who held a lock"
	grep -qa 'held by normal' "$WORK/$protocol"/*.pb || fail "$protocol: the frame is gone, too"
done

# forks NAME CHILDREN VARIABLE=VALUE...
forks()
{
	local name=$1 children=$2 rc=0

	shift 2
	double_start --ack-delay 0
	echo | env LD_PRELOAD="$PRELOAD" SPANPROF_SERVER_ADDRESS="$DOUBLE_URL" "$@" "$HOSTS/forks" "$children" 15 end \
		>"$WORK/$name.out" 2>"$WORK/$name.err" || rc=$?
	echo "$rc" >"$WORK/$name.rc"
	expect_rc "$name" 12
}

# Each process has its own series, up to 32 within an hour. Unsampled time has no count.
readonly TOLD='more than 32 processes have profiles within an hour'
for protocol in push otlp; do
	forks "$protocol" 60 SPANPROF_PROTOCOL="$protocol"
	[[ $(grep -c "$TOLD" "$WORK/$protocol.err") == 1 ]] || fail "$protocol: not told once: $(<"$WORK/$protocol.err")"
	series 'd["series"] <= 33 * 2 * 3'
	expect "$WORK/spans.json" 'd["profiles"] >= 50 and len(d["pids"]) <= 32'
	expect "$WORK/stats.json" 'd["series"] >= 32'
	forks "$protocol.no_pid" 60 SPANPROF_PROTOCOL="$protocol" SPANPROF_LABELS=pid=,hostname=
	# On a busy machine a child may lose a sample, which is told.
	! grep -v '^spanprof\[[0-9]*\]: lost since the last push: ' "$WORK/$protocol.no_pid.err" >&2 || fail "$protocol.no_pid: messages"
	series 'd["series"] <= 2 * 3'
	expect "$WORK/spans.json" 'd["profiles"] >= 50 and d["pids"] == {}'
done

# Without span ids there are no trace ids either, and equal samples of all requests are one.
for scope in root none; do
	double_start --ack-delay 0 --store "$WORK/$scope"
	run_under "$scope" SPANPROF_SERVER_ADDRESS="$DOUBLE_URL" SPANPROF_SPAN_ID_SCOPE="$scope" "$HOSTS/requests" 50000 100
	expect_rc "$scope" 19
	# shellcheck disable=SC2119
	expect_clean_double
	ask "$WORK/stats.json" 'd["accepted"]["bytes"]' >"$WORK/$scope.bytes"
done
grep -qa trace_id "$WORK"/root/*.pb || fail 'no trace'
! grep -qa trace_id "$WORK"/none/*.pb || fail 'a trace without spans'
(($(<"$WORK/none.bytes") * 4 < $(<"$WORK/root.bytes") * 3)) || fail "$(<"$WORK/none.bytes") of $(<"$WORK/root.bytes") bytes"
