#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs fuzzers on their corpus and then with new inputs for a while: run.sh [NAME...], all by
# default. What is found stays in build/fuzz/found. FUZZ_SECONDS=n is how long each takes.
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
failed=0
for name in "$@"; do
	mkdir "$work/$name"
	words=()
	[[ ! -f test/fuzz/$name.dict ]] || words=(-dict="test/fuzz/$name.dict")
	# Messages of ours go to stderr, which the fuzzer keeps for itself.
	if timeout $((FUZZ_SECONDS + 120)) "$FUZZ/$name" -close_fd_mask=2 -print_final_stats=1 -seed=1 \
		-max_total_time="$FUZZ_SECONDS" "${LIMITS[@]}" "${words[@]}" -artifact_prefix="$FUZZ/found/$name-" \
		"$work/$name" "test/fuzz/corpus/$name" >"$work/log" 2>&1; then
		printf '%-12s %s runs, %s inputs, nothing found\n' "$name" \
			"$(sed -n 's/^stat::number_of_executed_units: *//p' "$work/log")" \
			"$(find "test/fuzz/corpus/$name" -type f | wc -l)"
	else
		failed=1
		grep -vE "^#[0-9]+" "$work/log" | tail -n 40
		echo "$name: found something, see $FUZZ/found"
	fi
done
exit "$failed"
