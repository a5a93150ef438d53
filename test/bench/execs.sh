#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The cost of preloading for a program that is not profiled. BENCH_EXECS=n starts it more or less often than 1000
# times in each way.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=test/bench/lib.bash
source test/bench/lib.bash

readonly COUNT=${BENCH_EXECS:-1000} TARGET_US=300

echo "exec of a program that starts no span (/bin/true), median of $COUNT each, taking turns:"
"$BENCH/execs" "$COUNT" /bin/true "$OBJECT" "$PWD/$BENCH/libcurled.so" >"$WORK/execs"
awk '
{
	label = NR == 1 ? "without us" : NR == 2 ? "with us" : "with an object that needs libcurl"
	printf "  %-34s %6.3f ms  %+6.3f ms  x %.2f\n", label, $1 / 1000, $2 / 1000, $3
}' "$WORK/execs"
echo "  with us: $(answer 'exec of a program that is no target' \
	"$(awk 'NR == 2 { print $2 }' "$WORK/execs")" us $TARGET_US)"
