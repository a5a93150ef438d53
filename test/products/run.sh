#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The command of "make products": test/products/run.sh [mysql|pyarrow|tango|mysql+alloc|pyarrow+alloc]... Runs each
# product in turn, with +alloc also with sampled allocations. Each that passes is a line of the table in README.md,
# which is written when all have passed. Exit status 1 if one fails, or cannot be downloaded.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1

readonly ALL=(mysql pyarrow tango mysql+alloc pyarrow+alloc)
readonly WORK=build/products
failed=0

wanted=("$@")
((${#wanted[@]} > 0)) || wanted=("${ALL[@]}")
mkdir -p "$WORK"
{
	echo '| product | its opentelemetry-cpp | spans that arrived | samples | of these in spans | compared with |'
	echo '|---|---|---|---|---|---|'
} >"$WORK/table"
for row in "${wanted[@]}"; do
	echo "==> $row"
	product=${row%+alloc}
	unset TEST_ALLOC
	[[ $row == "$product" ]] || export TEST_ALLOC=1
	# First, because it may take longer than a test may.
	if bash test/products/fetch.sh "$product" "$WORK/$product" && bash "test/products/$product.sh"; then
		cat "$WORK/$product/row" >>"$WORK/table"
	else
		failed=1
	fi
done
echo
cat "$WORK/table"
((failed == 0)) || exit 1
if [[ ${wanted[*]} == "${ALL[*]}" ]]; then
	awk -v marker=products -v file="$WORK/table" -f scripts/between.awk test/products/README.md >"$WORK/README.md" &&
		cp "$WORK/README.md" test/products/README.md
fi
