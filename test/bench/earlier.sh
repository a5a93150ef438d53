#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Compares the costs of earlier commits with this one's: each is built in build/earlier, and their objects take turns.
#   test/bench/earlier.sh COMMIT...
# BENCH_ROUNDS=n takes more or fewer rounds of spans than 101, BENCH_RUNS=n more or fewer processes than 25.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=test/bench/lib.bash
source test/bench/lib.bash

readonly ROUNDS=${BENCH_ROUNDS:-101} RUNS=${BENCH_RUNS:-25} PAIRS=1000
(($# > 0)) || { echo "usage: $0 COMMIT..." >&2; exit 2; }
names=() folders=()

# build COMMIT: builds its product, and its program that measures the handler.
build()
{
	local name tree

	name=$(git rev-parse --short "$1")
	tree=$PWD/build/earlier/$name
	[[ -d $tree ]] || git clone -q . "$tree"
	git -C "$tree" checkout -q "$name"
	make -s -C "$tree" all build/test/bench/handler >"$WORK/build.$name" 2>&1 ||
		{ tail "$WORK/build.$name" >&2; exit 1; }
	names+=("$name") folders+=("$tree/build")
}

# spans LABEL VARIABLE=VALUE: a row of the table, from rounds of all objects in these settings.
spans()
{
	local i

	{
		echo 'without us|OTELC_PROCESSOR=drop'
		for i in "${!names[@]}"; do
			echo "${names[i]}|OTELC_PROCESSOR=drop LD_PRELOAD=${folders[i]}/libspanprof.so" \
				"SPANPROF_OUTPUT_DIR=$WORK/${names[i]} $2"
		done
	} | "$BENCH/rounds" "$ROUNDS" "$BENCH/direct" 1 "$PAIRS" 0 2>/dev/null >"$WORK/rounds"
	awk -F'|' -v label="$1" 'BEGIN { printf "| %s |", label } { printf " %.0f ns |", $2 } END { print "" }' \
		"$WORK/rounds"
}

# Each program measures the handler with which it is linked: three times in turn, the middle one counts.
handlers()
{
	local i folder

	for i in 1 2 3; do
		for folder in "${folders[@]}"; do
			echo "$folder $("$folder/test/bench/handler" 20000 2>/dev/null | grep '^spanprof ')"
		done
	done >"$WORK/handlers"
	# name, then median and 90th percentile for depths 8, 16, 32, 64, and cold 64
	handler_row 'a sample in the handler, depth 32, hot, median' 7
	handler_row 'a sample in the handler, depth 64, cold, 90th percentile' 12
}

# handler_row LABEL COLUMN
handler_row()
{
	local folder

	echo -n "| $1 | |"
	for folder in "${folders[@]}"; do
		awk -v folder="$folder" '$1 == folder' "$WORK/handlers" | awk -v n="$2" '{ print $n }' | sort -n |
			awk 'NR == 2 { printf " %s ns |", $1 }'
	done
	echo
}

make -s SPANPROF_SKIP_DEPS=1 all "$BENCH"/{rounds,direct,life,handler}
for commit in "$@"; do
	build "$commit"
done
names+=(now) folders+=("$PWD/build")
builds=()
for i in "${!names[@]}"; do
	builds+=("${names[i]}=${folders[i]}")
done
echo "| | without us$(printf ' | %s' "${names[@]}") |"
echo "|---|---$(printf '|%.0s---' "${names[@]}")|"
spans 'start and end of a span, switched off' SPANPROF_DISABLED=true
spans 'start and end of a span, without attribute' SPANPROF_ATTRIBUTES=never
spans 'start and end of a span, with an attribute' SPANPROF_ATTRIBUTES=always
handlers
python3 test/bench/life.py "$RUNS" "$BENCH/life" "${builds[@]}"
