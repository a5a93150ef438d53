#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What a host's requests take while the server is well, away, silent, slow or broken, as a ratio to the
# same host without us in the same round. BENCH_FAULT_ROUNDS=n takes more or fewer than 5 rounds of 2 s
# each.
set -euo pipefail
cd "$(dirname "$0")/../.."

readonly OBJECT=$PWD/build/libspanprof.so
readonly HOST=build/test/hosts/requests
readonly DOUBLE=build/test/pyroscope-double
readonly ROUNDS=${BENCH_FAULT_ROUNDS:-5} HOST_MS=2000
work=$(mktemp -d)
declare -a started=()

cleanup()
{
	local pid

	for pid in "${started[@]}"; do
		kill "$pid" 2>/dev/null || true
	done
	rm -rf "$work"
}
trap cleanup EXIT

# double NAME [OPTION]...: leaves its address in $work/NAME.
double()
{
	local name=$1

	shift
	"$DOUBLE" --port-file "$work/$name.port" "$@" 2>/dev/null &
	started+=("$!")
	for _ in {1..200}; do
		[[ ! -s $work/$name.port ]] || break
		sleep 0.05
	done
	echo "http://127.0.0.1:$(<"$work/$name.port")" >"$work/$name"
}

double well
double silent --fault blackhole=1,count=0
double slow --fault slow_drip=1,bytes=4000,interval_ms=20,count=0
double broken --fault status=500,count=0
# Nobody listens there any more.
double away
kill "${started[-1]}"

for ((round = 0; round < ROUNDS; round++)); do
	"$HOST" "$HOST_MS" >"$work/out" || (($? == 19))
	awk -v round="$round" '{ print round, "without", $1, $2 }' "$work/out"
	for server in well away silent slow broken; do
		LD_PRELOAD=$OBJECT SPANPROF_SERVER_ADDRESS=$(<"$work/$server") \
			SPANPROF_UPLOAD_INTERVAL=200ms SPANPROF_FLUSH_TIMEOUT=0 SPANPROF_LOG_LEVEL=off \
			"$HOST" "$HOST_MS" >"$work/out" || (($? == 19))
		awk -v round="$round" -v server="$server" '{ print round, server, $1, $2 }' "$work/out"
	done
done >"$work/figures"

echo "requests of 5 ms at a pause of 10 ms, an upload each 200 ms, median of $ROUNDS rounds (ratio to the host"
echo "without us in the same round):"
awk '
$3 == "half_us" || $3 == "most_us" { took[$1, $2, $3] = $4; rounds = $1 + 1 }
function median(list, n,    i, j, x) {
	for (i = 2; i <= n; i++)
		for (j = i; j > 1 && list[j - 1] > list[j]; j--) {
			x = list[j]; list[j] = list[j - 1]; list[j - 1] = x
		}
	return list[int((n + 1) / 2)]
}
function show(server, what,    r, ratio, us) {
	for (r = 0; r < rounds; r++) {
		us[r + 1] = took[r, server, what]
		ratio[r + 1] = us[r + 1] / took[r, "without", what]
	}
	return sprintf("%8.2f ms  x %.3f", median(us, rounds) / 1000, median(ratio, rounds))
}
END {
	n = split("without well away silent slow broken", server, " ")
	for (i = 1; i <= n; i++)
		printf "  %-10s half %s    99 of 100 %s\n", server[i], show(server[i], "half_us"), show(server[i], "most_us")
}' "$work/figures"
