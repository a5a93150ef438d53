#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The messages of a healthy run: none by default, one line at level info when profiling starts, and one line for each
# push and file at level debug. No secret of an address is in them; an error comes with its remedy.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need curl python3
export SPANPROF_SAMPLE_RATE=250 SPANPROF_UPLOAD_INTERVAL=300ms

# said NAME PATTERN COUNT: exactly COUNT lines of ours match
said()
{
	local n

	n=$(grep -Ec "^spanprof\[[0-9]+\]: $2\$" "$WORK/$1.err" || true)
	[[ $n == "$3" ]] || fail "$1: $n lines, not $3, are like $2: $(<"$WORK/$1.err")"
}

double_start --ack-delay 0
readonly PLACE=${DOUBLE_URL#http://}
readonly URL=http://user:s3cret@$PLACE
readonly START="profiling [0-9]+ as shop, 250 Hz, 33, pushing to http://$PLACE/?, writing into $WORK/files; SDK [a-z/-]*opentelemetry-c.*"
# pushed COUNT, wrote COUNT: the line about a profile with that many samples, as a regular expression
pushed() { echo "push of a profile \(cpu\) of [0-9]+: [1-9][0-9]* bytes, $1 samples, status 200 after [0-9.]+ ms"; }
# listed, timed: the lines of the slow roots of an interval, and of their samples
listed() { echo "wrote $WORK/files/spanprof-shop-.*-slow\.otlp\.jsonl: [1-9][0-9]* bytes"; }
timed() { echo "wrote $WORK/files/spanprof-shop-.*-slow\.pprof\.gz: [1-9][0-9]* bytes"; }
wrote() { echo "wrote $WORK/files/spanprof-shop-.*\.pb\.gz: [1-9][0-9]* bytes, $1 samples"; }

# with LEVEL
with()
{
	run_under "$1" SPANPROF_LOG_LEVEL="$1" SPANPROF_SERVER_ADDRESS="$URL" OTEL_SERVICE_NAME=shop \
		SPANPROF_OUTPUT_DIR="$WORK/files" "$HOSTS/spans" 800
	expect_rc "$1" 0
	if grep s3cret "$WORK/$1.err"; then
		fail "$1: a secret"
	fi
}

mkdir "$WORK/files"
with warn
said warn '.*' 0
with info
said info "$START" 1
said info '.*' 1
with debug
said debug "$START" 1
pushes=$(grep -Ec "$(pushed '[1-9][0-9]*')" "$WORK/debug.err" || true)
((pushes > 1)) || fail "$pushes pushes were told: $(<"$WORK/debug.err")"
said debug "$(pushed '[1-9][0-9]*')" "$pushes"
said debug "$(wrote '[1-9][0-9]*')" "$pushes"
# The last moments of the program may have no sample.
empty=$(grep -Ec "$(pushed 0)" "$WORK/debug.err" || true)
((empty <= 1)) || fail "$empty pushes without a sample: $(<"$WORK/debug.err")"
said debug "$(wrote 0)" "$empty"
roots=$(grep -Ec "$(listed)\$" "$WORK/debug.err" || true)
((roots > 0 && roots <= pushes + 1)) || fail "$roots files of slow roots: $(<"$WORK/debug.err")"
times=$(grep -Ec "$(timed)\$" "$WORK/debug.err" || true)
((times > 0)) || fail "no file of times: $(<"$WORK/debug.err")"
said debug '.*' $((1 + 2 * (pushes + empty) + roots + times))

# One message, with advice.
run_under nobody SPANPROF_SERVER_ADDRESS=http://127.0.0.1:9 "$HOSTS/spans" 800
said nobody 'push failed, will try again: .*[Cc]onnect.*; check SPANPROF_SERVER_ADDRESS, and that the server runs' 1
# The right port with the other scheme; the message names the variable that is set.
double_start --ack-delay 0
run_under scheme PYROSCOPE_SERVER_ADDRESS="https://localhost:${DOUBLE_URL##*:}" "$HOSTS/spans" 800
said scheme 'push failed, will try again: .*; the server (speaks|may speak) http there, not https: check PYROSCOPE_SERVER_ADDRESS' 1
double_start --ack-delay 0 --multitenancy --token s3cret
run_under stranger SPANPROF_SERVER_ADDRESS="$DOUBLE_URL" "$HOSTS/spans" 800
[[ $(grep -c 'check SPANPROF_AUTH_TOKEN' "$WORK/stranger.err") == 1 ]] || fail "stranger: $(<"$WORK/stranger.err")"

# Losses at the end are reported wherever stderr leads. If the exporter may not write there, the program's own last
# hook does. The upload interval is so long that nothing is reported earlier.
export SPANPROF_UPLOAD_INTERVAL=60s
double_start --ack-delay 0 --fault status=400,count=0
readonly REFUSING=$DOUBLE_URL
readonly LOST='^spanprof\[[0-9]+\]: [0-9]+ profiles? lost: the server refused (it|them) \(400\), [1-9][0-9]* samples?'
readonly NO_FILE='^spanprof\[[0-9]+\]: [0-9]+ profiles? lost: (it|they) could not be written into SPANPROF_OUTPUT_DIR, [1-9][0-9]* samples?$'
readonly UNWRITTEN='^spanprof\[[0-9]+\]: cannot write a profile into /proc/nowhere: '

# told NAME PATTERN: exactly one line of stderr matches
told()
{
	[[ $(grep -Ec "$2" "$WORK/$1.err" || true) == 1 ]] || fail "$1: $(<"$WORK/$1.err")"
}

# on_socket NAME VARIABLE=VALUE...: a program whose stderr is a socket
on_socket()
{
	local name=$1

	shift
	timeout 60 python3 test/e2e/messages.py env LD_PRELOAD="$SO" "$@" "$HOSTS/spans" 100 \
		>"$WORK/$name.both" || fail "$name: exit status $?"
	grep -v '^cpu ' "$WORK/$name.both" >"$WORK/$name.err" || true
}

on_socket socket SPANPROF_SERVER_ADDRESS="$REFUSING"
told socket "$LOST"
on_socket folder SPANPROF_OUTPUT_DIR=/proc/nowhere
told folder "$UNWRITTEN"
told folder "$NO_FILE"
run_under folder_pipe SPANPROF_OUTPUT_DIR=/proc/nowhere "$HOSTS/spans" 100
told folder_pipe "$UNWRITTEN"

# Containers open stderr as root and run the program as somebody else.
if has_nobody; then
	chmod 755 "$WORK"
	LD_PRELOAD=$SO SPANPROF_SERVER_ADDRESS=$REFUSING setpriv --reuid=65534 --regid=65534 --clear-groups \
		"$HOSTS/spans" 100 2>&1 >/dev/null | cat >"$WORK/nobody_pipe.err"
	told nobody_pipe "$LOST"
fi

# The offset of this file belongs to the program: its later output must not overwrite our lines.
{
	echo before >&2
	LD_PRELOAD=$SO SPANPROF_SERVER_ADDRESS=$REFUSING "$HOSTS/spans" 100 >/dev/null
	echo after >&2
} 2>"$WORK/offset.err"
told offset "$LOST"
[[ $(grep -v '^spanprof\[' "$WORK/offset.err") == $'before\nafter' ]] || fail "offset: $(<"$WORK/offset.err")"
[[ $(head -n 1 "$WORK/offset.err") == before && $(tail -n 1 "$WORK/offset.err") == after ]] ||
	fail "offset: $(<"$WORK/offset.err")"

# A program that a signal kills runs no hook of ours. The exporter appends to a file to which the program was
# appending, and the status file always has the losses.
is_sampled() { [[ -s $WORK/killed.json ]] && grep -q "memfd:spanprof" "/proc/$killed/maps" && ((SECONDS > since)); }
is_told() { grep -Eq "$LOST" "$WORK/killed.err"; }
LD_PRELOAD=$SO SPANPROF_SERVER_ADDRESS=$REFUSING SPANPROF_STATUS_FILE=$WORK/killed.json \
	"$HOSTS/spans" 100000 >/dev/null 2>>"$WORK/killed.err" &
killed=$!
since=$SECONDS
poll_until 20 is_sampled || fail "killed: no status file"
kill -TERM "$killed"
rc=0
wait "$killed" || rc=$?
((rc == 143)) || fail "killed: exit status $rc"
poll_until 30 is_told || fail "killed: $(<"$WORK/killed.err")"
told killed "$LOST"
expect "$WORK/killed.json" 'd["loss"]["batches_rejected_by_server"] >= 1 and d["loss"]["samples_in_lost_batches"] > 0'
