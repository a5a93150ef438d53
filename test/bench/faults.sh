#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The duration of a host's requests while something is wrong with the server, compared with a healthy server and no
# profiler: all of them run at once and get requests in turn.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=test/bench/lib.bash
source test/bench/lib.bash

readonly ROUNDS=${BENCH_ROUNDS:-61}
readonly TARGET_RATIO=1.05

# host LABEL ADDRESS
host()
{
	echo "$1|OTELC_SPANS_FILE=/dev/null LD_PRELOAD=$OBJECT SPANPROF_LOG_LEVEL=off SPANPROF_UPLOAD_INTERVAL=200ms SPANPROF_SERVER_ADDRESS=$2"
}

# faulty LABEL FAULT: a host whose server always has that fault
faulty()
{
	double_start --ack-delay 0 --fault "$2,count=0"
	host "$1" "$DOUBLE_URL"
}

{
	echo "without us|OTELC_SPANS_FILE=/dev/null"
	double_start --ack-delay 0
	host 'healthy server' "$DOUBLE_URL"
	# No process listens on the port for "discard".
	host refused http://127.0.0.1:9
	host 'no such host' http://nowhere.invalid:4040
	faulty 'black hole' blackhole=1
	faulty reset reset=1
	faulty 'reset mid-body' reset_early=1
	faulty 'slow loris' slow_drip=1,bytes=4000,interval_ms=100
	faulty '4 GiB answer' huge_body=1,bytes=4294967295
	faulty 'gzip bomb' bomb=1
	faulty garbage garbage=1
	faulty '429, retry later' status=429,retry_after=1
	faulty '500 always' status=500
	faulty '301 to elsewhere' redirect=http://127.0.0.1:9/,status=301
} >"$WORK/hosts"
"$BENCH/rounds" "$ROUNDS" "$BENCH/requests" <"$WORK/hosts" >"$WORK/rounds"
echo "Time of a request of a host by what is wrong with its server, without time on the run queue:"
echo "(mean of 10, medians of $ROUNDS rounds; a ratio is that of two rounds one after the other)"
awk -F'|' '
NR == 2 { healthy = $4 }
{ printf "  %-18s %7.3f ms  x %.3f of without us%s\n", $1, $2 / 1e6, $4,
	(NR > 2 ? sprintf("  x %.3f of healthy", $4 / healthy) : "") }' "$WORK/rounds"
worst=$(awk -F'|' '
NR == 2 { healthy = $4 }
NR > 2 && $4 / healthy > worst { worst = $4 / healthy }
END { printf "%.3f", worst }' "$WORK/rounds")
echo "  the worst: $(answer 'time of a request under the worst fault of the server, of that with a healthy one' \
	"$worst" times $TARGET_RATIO)"
