#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs and prints the conformance matrix; the README.md of this folder has to say the same, and a cell
# of it that is not so is noticed.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3
python3 test/conformance/matrix.py run "$SO" build/test/conformance/matrix.json
scripts/update-readme.sh --check-matrix
# The other table takes the network to make, so its figures are not compared here.
python3 test/conformance/matrix.py ways-in test/sdk-latest/README.md test/sdk-latest/latest.conf

mkdir -p "$WORK/scripts" "$WORK/test" "$WORK/build/test/conformance"
cp scripts/update-readme.sh scripts/between.awk "$WORK/scripts/"
cp -r test/conformance "$WORK/test/"
cp build/test/conformance/matrix.json "$WORK/build/test/conformance/"
sed 's/^| otel-c | [0-9]*/| otel-c | 99/' test/conformance/README.md >"$WORK/test/conformance/README.md"
if cmp -s test/conformance/README.md "$WORK/test/conformance/README.md"; then
	fail "no cell to seed a fault into"
fi
if "$WORK/scripts/update-readme.sh" --check-matrix 2>/dev/null; then
	fail "a cell of the table that is not so went unnoticed"
fi
