#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The cost of one sample inside the signal handler, by depth of the stack: ours, gperftools', and handlers with
# libunwind, in the same run. Usage: handler.sh [ROUNDS]
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=test/bench/lib.bash
source test/bench/lib.bash

readonly ROUNDS=${1:-20000} TARGET_HOT_NS=500 TARGET_COLD_NS=1500

# The walk by frame pointers uses the program that was built with them.
measure()
{
	build/test/bench/handler "$ROUNDS" 2>/dev/null | grep -v -e '^nothing' -e '^frame-pointers'
	build/test/bench/handler-fp "$ROUNDS" 2>/dev/null | grep '^frame-pointers'
}

echo 'one sample in the signal handler, ns of time: median / 90th percentile'
measure >"$WORK/handlers"
awk '
BEGIN {
	printf "  %-16s", "depth"
	split("8 16 32 64 cold-64", head)
	for (i = 1; i <= 5; i++)
		printf " %16s", head[i]
	print ""
}
$2 == "-" {
	printf "  %-16s not installed\n", $1
	next
}
{
	printf "  %-16s", $1
	for (i = 2; i <= NF; i += 2)
		printf " %7s / %6s", $i, $(i + 1)
	print ""
	at32[$1] = $6
	cold[$1] = $10
}
END {
	for (name in at32) {
		if (name != "spanprof" && at32["spanprof"] > 0 && cold["spanprof"] > 0)
			printf "  %s / spanprof: %.2f at depth 32, %.2f cold\n", name,
				at32[name] / at32["spanprof"], cold[name] / cold["spanprof"]
	}
}' "$WORK/handlers"
# column_of_ours N: the N-th word of our line
column_of_ours()
{
	awk -v n="$1" '$1 == "spanprof" { print $n }' "$WORK/handlers"
}
echo "  hot, depth 32, median: $(answer 'a sample in the signal handler, depth 32, hot, median' \
	"$(column_of_ours 6)" ns $TARGET_HOT_NS)"
echo "  cold, depth 64, 90th percentile: $(answer 'a sample in the signal handler, depth 64, cold, 90th percentile' \
	"$(column_of_ours 11)" ns $TARGET_COLD_NS)"
echo '  unw_step and unw_backtrace may hang a program from a signal handler; frame pointers are a bound,'
echo '  not a choice: most of Debian is built without them'
