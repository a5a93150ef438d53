#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs fuzzers on their corpus and then with new inputs for a while: run.sh [NAME...], all by default. Findings go to
# build/fuzz/found. FUZZ_SECONDS=n is the time for each.
set -euo pipefail
cd "$(dirname "$0")/../.."

readonly FUZZ=build/fuzz
readonly FUZZ_SECONDS=${FUZZ_SECONDS:-1}
readonly LIMITS=(-rss_limit_mb=1024 -timeout=25 -max_len=65536)

if (($# == 0)); then
	sources=(test/fuzz/*.c)
	sources=("${sources[@]#test/fuzz/}")
	set -- "${sources[@]%.c}"
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$FUZZ/found"

# fuzz NAME: prints the result; false if it found something.
fuzz()
{
	local name=$1 words=()

	mkdir "$work/$name"
	[[ ! -f test/fuzz/$name.dict ]] || words=(-dict="test/fuzz/$name.dict")
	# Our messages go to stderr, which the fuzzer uses for itself.
	if timeout $((FUZZ_SECONDS + 120)) "$FUZZ/$name" -close_fd_mask=2 -print_final_stats=1 -seed=1 \
		-max_total_time="$FUZZ_SECONDS" "${LIMITS[@]}" "${words[@]}" -artifact_prefix="$FUZZ/found/$name-" \
		"$work/$name" "test/fuzz/corpus/$name" >"$work/$name.log" 2>&1; then
		printf '%-12s %s runs, %s inputs, nothing found\n' "$name" \
			"$(sed -n 's/^stat::number_of_executed_units: *//p' "$work/$name.log")" \
			"$(find "test/fuzz/corpus/$name" -type f | wc -l)"
	else
		grep -vE "^#[0-9]+" "$work/$name.log" | tail -n 40
		echo "$name: found something, see $FUZZ/found"
		return 1
	fi
}

# Each has one thread, so as many run at a time as there are processors.
declare -A told=()
failed=0
finish_one()
{
	local pid rc=0

	wait -n -p pid "${!told[@]}" || rc=1
	cat "${told[$pid]}"
	unset "told[$pid]"
	((rc == 0)) || failed=1
}
for name in "$@"; do
	((${#told[@]} < $(nproc))) || finish_one
	fuzz "$name" >"$work/$name.told" &
	told[$!]=$work/$name.told
done
while ((${#told[@]} > 0)); do
	finish_one
done
exit "$failed"
