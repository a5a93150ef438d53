# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034
# Starts a real Pyroscope, whose program is built by "go build ./cmd/pyroscope" in its sources. Sourced after lib.bash.

PYROSCOPE_HERE=

# pyroscope_start PROGRAM: sets PYROSCOPE_HERE, its address, and PYROSCOPE_PID. Only one can run, because its parts find each
# other at fixed ports. It runs with its present storage (v2): the older storage beside it would answer until the first block is
# compacted. After pyroscope_stop the next server has the same address and data.
pyroscope_start()
{
	local port=${PYROSCOPE_HERE##*:}

	port=${port:-$(refused_port)}
	mkdir -p "$WORK/pyroscope"
	(cd "$WORK/pyroscope" && exec "$1" -architecture.storage=v2 -self-profiling.disable-push=true \
		-usage-stats.enabled=false -server.http-listen-address=127.0.0.1 -server.http-listen-port="$port") \
		>>"$WORK/pyroscope.log" 2>&1 &
	PYROSCOPE_PID=$!
	STARTED+=("$PYROSCOPE_PID")
	disown "$PYROSCOPE_PID"
	PYROSCOPE_HERE=http://127.0.0.1:$port
	poll_until 120 curl -sf -o /dev/null "$PYROSCOPE_HERE/ready" ||
		fail "no Pyroscope: $(tail -n 5 "$WORK/pyroscope.log")"
}

pyroscope_is_gone()
{
	! kill -0 "$PYROSCOPE_PID" 2>/dev/null
}

# Ends the server, which stores its profiles first.
pyroscope_stop()
{
	kill "$PYROSCOPE_PID"
	poll_until 60 pyroscope_is_gone || fail "Pyroscope does not end: $(tail -n 5 "$WORK/pyroscope.log")"
}
