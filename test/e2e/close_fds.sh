#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2119
# A host closes every descriptor and opens its own files as 0, 1 and 2. The files contain only its own output, even if
# we have something to report; its profile arrives.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3 curl

# own_files FOLDER: the files contain exactly the host's lines.
own_files()
{
	local fd

	for fd in 0 1 2; do
		seq -f "file $fd line %.0f" 0 29 | cmp - "$1/own$fd" || {
			grep -v '^file' "$1/own$fd" | head -3 >&2
			fail "somebody else wrote to descriptor $fd"
		}
	done
}

mkdir "$WORK"/{plain,file,push,trouble,profiles}
run plain "$HOSTS/close_fds" "$WORK/plain"
expect_rc plain 11
own_files "$WORK/plain"

run_under file SPANPROF_UPLOAD_INTERVAL=200ms SPANPROF_OUTPUT_DIR="$WORK/profiles" \
	FIXTURE_SPANS="$WORK/spans" "$HOSTS/close_fds" "$WORK/file"
expect_same plain file out rc
own_files "$WORK/file"
report "$WORK/profiles" "$WORK/report.json"
# The host's 150 ms before it closed everything, and 1200 ms after.
expect "$WORK/report.json" 'd["labelled"]["ns"] > 1.1e9'

double_start --ack-delay 0
run_under push SPANPROF_UPLOAD_INTERVAL=200ms SPANPROF_SERVER_ADDRESS="$DOUBLE_URL" \
	"$HOSTS/close_fds" "$WORK/push"
expect_same plain push out rc
own_files "$WORK/push"
expect_clean_double
double_get /double/spans "$WORK/spans.json"
expect "$WORK/spans.json" 'd["with_span"]["ns"] > 1.1e9'

# Failed uploads cause a message, but it must not go into a file that is no longer stderr.
run_under trouble SPANPROF_UPLOAD_INTERVAL=200ms \
	SPANPROF_SERVER_ADDRESS="http://127.0.0.1:$(refused_port)" SPANPROF_STATUS_FILE="$WORK/trouble.status" \
	"$HOSTS/close_fds" "$WORK/trouble"
expect_same plain trouble out rc
own_files "$WORK/trouble"
expect "$WORK/trouble.status" 'd["push"]["last_error"] != ""'
