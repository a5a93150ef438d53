#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What a healthy run says: nothing by default, one line at level info when profiling starts, and one
# line for each push and file at level debug. No secret of an address is among it; an error comes with
# its remedy.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need curl
export SPANPROF_SAMPLE_RATE=250 SPANPROF_UPLOAD_INTERVAL=300ms

# said NAME PATTERN COUNT: so many lines of ours are like that
said()
{
	local n

	n=$(grep -Ec "^spanprof\[[0-9]+\]: $2\$" "$WORK/$1.err" || true)
	[[ $n == "$3" ]] || fail "$1: $n lines, not $3, are like $2: $(<"$WORK/$1.err")"
}

double_start --ack-delay 0
readonly PLACE=${DOUBLE_URL#http://}
readonly URL=http://user:s3cret@$PLACE
readonly START="profiling [0-9]+ as shop, 250 Hz, SIGURG, pushing to http://$PLACE/?, writing into $WORK/files; SDK [a-z/-]*opentelemetry-c.*"
# pushed COUNT, wrote COUNT: the line of a profile with so many samples, as a regular expression
pushed() { echo "push of a profile \(cpu\) of [0-9]+: [1-9][0-9]* bytes, $1 samples, status 200 after [0-9.]+ ms"; }
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
# The program's last moments may have no sample.
empty=$(grep -Ec "$(pushed 0)" "$WORK/debug.err" || true)
((empty <= 1)) || fail "$empty pushes without a sample: $(<"$WORK/debug.err")"
said debug "$(wrote 0)" "$empty"
said debug '.*' $((1 + 2 * (pushes + empty)))

# Once, with what to do.
run_under nobody SPANPROF_SERVER_ADDRESS=http://127.0.0.1:9 "$HOSTS/spans" 800
said nobody 'push failed, will try again: .*[Cc]onnect.*; check SPANPROF_SERVER_ADDRESS, and that the server runs' 1
double_start --ack-delay 0 --multitenancy --token s3cret
run_under stranger SPANPROF_SERVER_ADDRESS="$DOUBLE_URL" "$HOSTS/spans" 800
[[ $(grep -c 'check SPANPROF_AUTH_TOKEN' "$WORK/stranger.err") == 1 ]] || fail "stranger: $(<"$WORK/stranger.err")"
