#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Actions of the program on itself never wait for the exporter: here a change of its user while a server hangs.
# close_fds.sh has a program that replaces its stderr.
# Runs alone: it judges durations.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3
readonly HOST=$HOSTS/outside

# A server that reads the request and never answers. It reports when it has begun to read.
python3 -c '
import os, socket, sys
listener = socket.socket(); listener.bind(("127.0.0.1", 0)); listener.listen(8)
with open(sys.argv[1] + ".new", "w") as file: file.write(str(listener.getsockname()[1]))
os.rename(sys.argv[1] + ".new", sys.argv[1])
kept = [listener.accept()[0]]; kept[0].recv(1)
open(sys.argv[2], "w").close()
while True: kept.append(listener.accept()[0])' "$WORK/port" "$WORK/has_it" &
STARTED+=("$!")
disown
poll_until 20 test -s "$WORK/port" || fail "the silent server does not start"
run_under identity SPANPROF_UPLOAD_INTERVAL=200ms SPANPROF_FLUSH_TIMEOUT=0 SPANPROF_LOG_LEVEL=none \
	SPANPROF_SERVER_ADDRESS="http://127.0.0.1:$(<"$WORK/port")" "$HOST" identity "$WORK/has_it"
expect_rc identity 6
[[ -e $WORK/has_it ]] || fail "nothing was sent"
read -r _ slowest <"$WORK/identity.out"
echo "seteuid() took at most $slowest ms"
((slowest <= 100)) || fail "seteuid() took $slowest ms"
