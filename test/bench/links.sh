#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The number of spans with a profile behind their link: local roots with a sample at the default rate, of all local
# roots, in a server with short requests and in the demo. Also writes the rows to build/test/bench/links.md, for
# "scripts/update-readme.sh --links".
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=test/bench/lib.bash
source test/bench/lib.bash

readonly CPU_US='100 1000 2000 5000 10000 20000'
readonly CPU_US_ALL=${BENCH_LINKS_US:-3000000}

# row WHO SPANS.json: with SPANPROF_ATTRIBUTES=with-samples, a span with our attribute has samples.
row()
{
	local all with

	all=$(grep -c '"kind":"server"' "$2" || true)
	with=$(grep '"kind":"server"' "$2" | grep -c '"pyroscope.profile.id"' || true)
	echo "| $1 | $all | $with | $(awk -v all="$all" -v with="$with" 'BEGIN { printf "%.1f", 100 * with / all }') % |"
}

rows()
{
	local us name

	echo '| requests | spans | spans with samples | |'
	echo '|---|---|---|---|'
	for us in $CPU_US; do
		name=$WORK/links.$us
		mkdir "$name"
		LD_PRELOAD=$OBJECT SPANPROF_OUTPUT_DIR=$name SPANPROF_ATTRIBUTES=with-samples OTELC_SPANS_JSON=$name.json \
			"$BENCH/links" "$us" $((CPU_US_ALL / us))
		row "$(awk -v us="$us" 'BEGIN { print us / 1000 }') ms of CPU time each" "$name.json"
	done
	SPANPROF_ATTRIBUTES=with-samples SPANPROF_DEMO_OUT=$WORK/demo SPANPROF_DEMO_SECONDS=10 \
		test/rideshare/demo.sh >"$WORK/demo.log" 2>&1 || true
	row 'the demo, 9 to 75 ms of CPU time each' "$WORK/demo/spans.json"
}

rows >"$BENCH/links.md"
cat "$BENCH/links.md"
