#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What preloading costs every program that is started and is no target. BENCH_EXECS=n starts it more or
# less often than 1000 times in each way.
set -euo pipefail

readonly COUNT=${BENCH_EXECS:-1000} TARGET_US=300
readonly BENCH=build/test/bench

echo "exec of a program that starts no span (/bin/true), median of $COUNT each, taking turns:"
"$BENCH/execs" "$COUNT" /bin/true "$PWD/build/libspanprof.so" "$PWD/$BENCH/libcurled.so" |
	awk -v target=$TARGET_US '
	{
		label = NR == 1 ? "without us" : NR == 2 ? "with us" : "with an object that needs libcurl"
		verdict = NR != 2 ? "" : $2 <= target ? "within " target / 1000 " ms" : "over " target / 1000 " ms"
		printf "  %-34s %6.3f ms  %+6.3f ms  x %.2f  %s\n", label, $1 / 1000, $2 / 1000, $3, verdict
	}'
