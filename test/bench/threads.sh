#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The cost of a thread: memory of 1,000 threads that were sampled, and arming and disarming one.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=test/bench/lib.bash
source test/bench/lib.bash

readonly THREADS=1000 TARGET_KIB=8
readonly ROUNDS=${BENCH_ROUNDS:-61}

# resident COUNT MS [VARIABLE=VALUE]...: KiB of the process while COUNT threads are held.
resident()
{
	env "${@:3}" "$BENCH/threads" held "$1" "$2" 2>/dev/null
}

# signalled COUNT MS: the same without us, for threads that took an ordinary signal.
signalled()
{
	"$BENCH/threads" signalled "$1" "$2" 2>/dev/null
}

# each FEW MANY: KiB of each thread, from the sizes of a process with 1 and with THREADS + 1.
each()
{
	awk -v kib=$(($2 - $1)) -v n=$THREADS 'BEGIN { printf "%.1f", kib / n }'
}

# with_us COUNT MS HZ
with_us()
{
	resident "$1" "$2" LD_PRELOAD="$OBJECT" SPANPROF_PROFILE=always SPANPROF_OUTPUT_DIR="$WORK" \
		SPANPROF_SAMPLE_RATE="$3" SPANPROF_UPLOAD_INTERVAL=10m
}

# per_thread MS HZ: the KiB that a thread takes more with us than without.
per_thread()
{
	local few many

	few=$(($(with_us 1 "$1" "$2") - $(resident 1 "$1")))
	many=$(($(with_us $((THREADS + 1)) "$1" "$2") - $(resident $((THREADS + 1)) "$1")))
	each "$few" "$many"
}

echo "Resident memory per thread more than without us, $THREADS threads:"
armed=$(per_thread 0 100)
sampled=$(per_thread 4 1000)
echo "  armed, never sampled    $armed KiB   $(answer 'memory per armed thread' "$armed" KiB $TARGET_KIB)"
echo "  sampled a few times     $sampled KiB   $(answer \
	'memory per sampled thread, the stack that its signal handler touches included' "$sampled" KiB $TARGET_KIB)"
few=$(($(signalled 1 4) - $(resident 1 4)))
many=$(($(signalled $((THREADS + 1)) 4) - $(resident $((THREADS + 1)) 4)))
echo "  without us, after one signal whose handler does nothing: $(each "$few" "$many") KiB"

echo 'CPU time of one pthread_create and pthread_join, ours is arming and disarming:'
{
	echo "without us|A=1"
	echo "not sampling|LD_PRELOAD=$OBJECT"
	echo "sampling at 100 Hz|LD_PRELOAD=$OBJECT SPANPROF_PROFILE=always SPANPROF_OUTPUT_DIR=$WORK"
} | "$BENCH/rounds" "$ROUNDS" "$BENCH/threads" churn 2>/dev/null | awk -F'|' '{
	printf "  %-20s %7.0f ns %+8.0f ns  x %.3f   quiet rounds: %7.0f ns %+8.0f ns\n", $1, $2, $3, $4, $5, $6 }'
