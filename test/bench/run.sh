#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What the profiler costs, measured side by side in this very run: hosts with and without it take
# turns. BENCH_ROUNDS=n takes more or fewer rounds than 61.
set -euo pipefail

readonly OBJECT=$PWD/build/libspanprof.so
readonly BENCH=build/test/bench
readonly ROUNDS=${BENCH_ROUNDS:-61}
readonly PAIRS=1000
# Of the SDK's own pair, and of ours apart from the SDK's SetAttribute.
readonly TARGET_PERCENT=5 TARGET_NS=60
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

# "label|environment" of a host that is profiled with these settings
profiled()
{
	echo "$1|OTELC_PROCESSOR=drop LD_PRELOAD=$OBJECT SPANPROF_OUTPUT_DIR=$out ${*:2}"
}

# All settings; the first line is what the others are compared with.
settings()
{
	local mode scope

	echo "without us|OTELC_PROCESSOR=drop"
	profiled "switched off" SPANPROF_DISABLED=true
	for scope in root all; do
		for mode in never with-samples always; do
			profiled "$scope, $mode" SPANPROF_ATTRIBUTES=$mode SPANPROF_SPAN_ID_SCOPE=$scope
		done
	done
}

few_settings()
{
	settings | grep -E '^(without us|root, never)'
}

table()
{
	awk -F'|' -v percent=$TARGET_PERCENT '
	function verdict(ratio, label) {
		if (label !~ /never/)
			return ""
		return ratio <= 1 + percent / 100 ? "within " percent " %" : "over " percent " %"
	}
	{ printf "  %-20s %6.0f ns %+8.1f ns  x %.3f   quiet rounds: %6.0f ns %+8.1f ns  %s\n",
		$1, $2, $3, $4, $5, $6, verdict($5 / ($5 - $6), $1) }'
}

# rounds_of HOST THREADS OPEN, settings on stdin; the SDK's own chatter is of no interest
rounds_of()
{
	"$BENCH/rounds" "$ROUNDS" "$BENCH/$1" "$2" "$PAIRS" "$3" 2>"$out/stderr" | table
}

cat <<END
CPU time of one start+end pair. Median over $ROUNDS rounds of $PAIRS pairs; difference and ratio are medians
over rounds that were run one after the other; a tenth of the rounds is faster than a quiet one.
END
for host in direct pairs; do
	for threads in 1 8; do
		case $host in
		direct) echo "opentelemetry-cpp, batch processor, $threads thread(s):" ;;
		pairs) echo "through the C wrapper, whose spans are current, $threads thread(s):" ;;
		esac
		settings | rounds_of $host $threads 0
	done
done
echo "opentelemetry-cpp, each span current from its start to its end:"
few_settings | BENCH_SCOPE=1 rounds_of direct 1 0
for open in 10 1000 10000; do
	echo "opentelemetry-cpp, with $open spans open on another thread:"
	few_settings | rounds_of direct 1 $open
done

echo 'our own part alone, without SDK and hooks:'
while read -r threads open; do
	"$BENCH/rounds" "$ROUNDS" "$BENCH/ours" "$threads" "$PAIRS" "$open" <<<'ours|A=' |
		awk -F'|' -v t="$threads" -v o="$open" -v target=$TARGET_NS '{
			printf "  %d thread(s), %5d spans open   %5.0f ns   quiet rounds: %5.0f ns   %s\n",
				t, o, $2, $5, ($5 <= target ? "within " : "over ") target " ns" }'
done <<<'1 10
1 1000
1 10000
8 10'

"$PWD/test/bench/execs.sh"
"$PWD/test/bench/handler.sh"
"$PWD/test/bench/symbols.sh"
"$PWD/test/bench/export.sh"
"$PWD/test/bench/faults.sh"
