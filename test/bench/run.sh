#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What the profiler costs, as ratios measured side by side in this very run.
set -euo pipefail

object=$PWD/build/libspanprof.so
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

# median nanoseconds of CPU per start+end pair, environment assignments as arguments
pairs()
{
	env OTELC_SPANS_FILE=/dev/null "$@" build/test/bench/pairs 21 2000
}

profiled()
{
	pairs LD_PRELOAD="$object" SPANPROF_OUTPUT_DIR="$out" "$@"
}

percent()
{
	awk -v a="$1" -v b="$2" 'BEGIN { printf "%+.1f %%", (b - a) * 100 / a }'
}

echo 'span start+end on opentelemetry-cpp through the C wrapper (batch processor), median of 21 rounds:'
plain=$(pairs)
printf '  %-44s %7s ns\n' 'without us' "$plain"
for mode in never always; do
	with=$(profiled SPANPROF_ATTRIBUTES=$mode)
	printf '  %-44s %7s ns  %s\n' "preloaded, SPANPROF_ATTRIBUTES=$mode" "$with" \
		"$(percent "$plain" "$with")"
done

echo 'exec of a program that starts no span (/bin/true), median of 1000 each, alternating:'
read -r without with more < <(build/test/bench/execs "$object" 1000 /bin/true)
printf '  without %s us, preloaded %s us, difference %s us\n' "$without" "$with" "$more"
