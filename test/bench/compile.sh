#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What sampling at 100 Hz adds to the CPU time of a compilation by clang, beside gperftools, taking
# turns. BENCH_COMPILES=n makes another number of rounds than 15.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=test/bench/lib.bash
source test/bench/lib.bash

readonly ROUNDS=${BENCH_COMPILES:-15}
readonly TARGET_PERCENT=0.3
readonly PERFTOOLS=libprofiler.so.0
compiler=$(type -P clang++ || type -P clang++-14) || {
	echo 'no clang++ here: CPU overhead of a compilation not measured'
	exit 0
}

ways()
{
	local ours="LD_PRELOAD=$OBJECT SPANPROF_PROFILE=always SPANPROF_OUTPUT_DIR=$work"

	echo "without a profiler|A=1"
	echo "spanprof|$ours"
	# Like gperftools, which leaves naming to a tool: sampled and drained, then thrown away.
	echo "spanprof, sampling alone|$ours SPANPROF_UPLOAD_INTERVAL=10m SPANPROF_FLUSH_TIMEOUT=0"
	! ldconfig -p | grep -qF "$PERFTOOLS" ||
		echo "gperftools|LD_PRELOAD=$PERFTOOLS CPUPROFILE=$work/perftools CPUPROFILE_FREQUENCY=100"
}

ways | "$BENCH/cpu" "$ROUNDS" "$compiler" -O2 -std=c++17 -I. -c -o /dev/null test/bench/direct.cc \
	>"$work/ways" 2>"$work/stderr" || {
	cat "$work/stderr" >&2
	exit 1
}
echo "CPU time of clang++ -O2 at 100 Hz, medians of $ROUNDS rounds; the difference is true within the"
echo 'range in brackets with 95 % confidence. Loading the exporter, naming and writing are in it:'
awk -F'|' '{ printf "  %-26s %7.0f ms  %+7.1f ms  %+6.2f %%  [%+.2f, %+.2f]\n", $1, $2, $3, $4, $5, $6 }' \
	"$work/ways"
figures()
{
	awk -F'|' -v label="$1" '$1 == label { print $4, $5, $6 }' "$work/ways"
}
# judge LABEL QUESTION
judge()
{
	local percent from to

	read -r percent from to < <(figures "$1")
	echo "  $1: $(answer "$2" "$percent" % $TARGET_PERCENT "$from" "$to")"
	[[ -z $half ]] || echo "  $1, beside half of gperftools: $(answer "$2, beside half of gperftools" \
		"$percent" % "$half" "$from" "$to")"
}
half=$(figures gperftools | awk '{ printf "%.2f", $1 / 2 }')
judge 'spanprof, sampling alone' 'CPU overhead of a compilation by clang at 100 Hz, sampling alone'
judge spanprof '... and what each process pays once: loading, naming, writing'
