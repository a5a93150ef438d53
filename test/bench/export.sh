#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The cost of the exporter: encoding, memory with a host of many objects, and the exporter's share of a processor.
# Prints figures and whether they meet the targets; no figure decides a build. BENCH_SECONDS=n observes the exporter
# for n seconds instead of 60.
set -euo pipefail
cd "$(dirname "$0")/../.."

# shellcheck source=test/bench/lib.bash
source test/bench/lib.bash
# shellcheck source=test/common/exporter.bash
source test/common/exporter.bash

readonly WATCH_S=${BENCH_SECONDS:-60}
readonly MODULES=300 FUNCTIONS=200
readonly TARGET_MS=40 TARGET_MIB=24 TARGET_PERCENT=0.3

read -r ms quiet kib profiles plain packed < <("$BENCH/export")
echo "16,000 samples of depth 64 with 1,000 span ids, encoded and compressed ($profiles profiles, $plain KiB, packed $packed):"
printf '  %s ms of CPU time, %s KiB of memory at most   quiet rounds: %s ms   %s\n' "$ms" "$kib" "$quiet" \
	"$(answer '16,000 samples of depth 64 with 1,000 span ids, encoded and compressed' "$ms" ms $TARGET_MS)"

# Each has its own build id, like 300 different objects.
{
	for ((i = 0; i < FUNCTIONS; i++)); do
		echo "unsigned work_$i(unsigned n) { unsigned s = $i; while (n--) s = s * 31 + n; return s; }"
	done
} >"$WORK/module.c"
gcc -O2 -g -fPIC -c -o "$WORK/module.o" "$WORK/module.c"
for ((i = 0; i < MODULES; i++)); do
	printf -v id '0x%040x' $((i + 1))
	gcc -shared -nostdlib -Wl,--build-id="$id" -o "$WORK/libmodule$i.so" "$WORK/module.o"
done

# peak [VARIABLE=VALUE]...: the peak resident memory in KiB of the host with all objects, and of its exporter.
peak()
{
	env OTELC_SPANS_FILE=/dev/null "$@" python3 test/bench/peak.py "$BENCH/modules" "$WORK"/libmodule*.so |
		cut -d ' ' -f 1
}

# The profiler is in the host, not in the program that measures.
preloaded()
{
	peak BENCH_PRELOAD="$OBJECT" SPANPROF_OUTPUT_DIR="$WORK" SPANPROF_UPLOAD_INTERVAL=1s "$@"
}

without=$(peak)
for mode in full names; do
	with=$(preloaded SPANPROF_SYMBOLIZE=$mode)
	mib=$(awk -v a="$with" -v b="$without" 'BEGIN { printf "%.1f", (a - b) / 1024 }')
	[[ $mode == names ]] || echo "Resident memory on a host with $MODULES objects of $FUNCTIONS functions each, at most ($((without / 1024)) MiB without us):"
	printf '  %-5s  %s MiB more   %s\n' "$mode" "$mib" "$(answer \
		"memory on a host with $MODULES objects, SPANPROF_SYMBOLIZE=$mode" "$mib" MiB $TARGET_MIB)"
done

# ours_ns PID: CPU time of the exporter's threads.
ours_ns()
{
	cut -d ' ' -f 1 /proc/"$1"/task/*/schedstat | awk '{ sum += $1 } END { printf "%d\n", sum }'
}

# shellcheck disable=SC2119
double_start --ack-delay 0
OTELC_SPANS_FILE=/dev/null LD_PRELOAD=$OBJECT SPANPROF_SERVER_ADDRESS=$DOUBLE_URL \
	build/test/hosts/spans $(((WATCH_S + 60) * 1000)) >/dev/null &
host=$!
STARTED+=("$host")
disown "$host"
# The first upload reads symbols; after it the state is steady.
sleep 20
exporter=$(exporter_of "$host") || { echo "export.sh: the host has no exporter" >&2; exit 1; }
began=$(ours_ns "$exporter")
started=${EPOCHREALTIME/./}
sleep "$WATCH_S"
percent=$(awk -v ns=$(($(ours_ns "$exporter") - began)) -v us=$((${EPOCHREALTIME/./} - started)) \
	'BEGIN { printf "%.2f", ns / us / 10 }')
echo "The exporter of a host with two busy threads at 100 Hz, over $WATCH_S s after the first upload:"
printf '  %s %% of one processor   %s\n' "$percent" "$(answer \
	'the exporter at 100 Hz on two busy threads, of one processor' "$percent" % $TARGET_PERCENT)"
