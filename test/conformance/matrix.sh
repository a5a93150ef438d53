#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs and prints the conformance matrix. The README.md of this folder must have the same tables, and a cell that
# differs fails the test.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3
python3 test/conformance/matrix.py run "$SO" build/test/conformance/matrix.json
scripts/update-readme.sh --check-matrix
# Making the other table requires the network, so its figures are not compared here.
python3 test/conformance/matrix.py ways-in test/sdk-latest/README.md test/sdk-latest/latest.conf

# If the profiler's start takes longer than other threads wait for it, the first spans are lost. Then cells without
# labels fail, unless MATRIX_TOLD allows the profiler's message about that loss. strace is run like an emulator,
# because it passes variables to the program in the same way.
if [[ -z ${MATRIX_TOLD:-} && -z ${TEST_EMULATOR:-} ]]; then
	need strace
	sed -n '/^sdk otelc /p; /^mode root /p; /^reason /p' test/conformance/matrix.conf >"$WORK/one.conf"
	slow=(env TEST_EMULATOR="strace -f -qq -o /dev/null -e trace=memfd_create -e inject=memfd_create:delay_enter=100000"
		MATRIX_TOLD= python3 test/conformance/matrix.py run "$SO" "$WORK/one.json" "$WORK/one.conf" build/test/conformance)
	! "${slow[@]}" >"$WORK/one.out" || fail "a loss that may not be told went unnoticed"
	grep -q '^FAIL first spans at once|otelc|root: line [0-9]*: no label, not "a";' "$WORK/one.out" || fail "$(<"$WORK/one.out")"
	slow[2]='MATRIX_TOLD=spans? ha.* no samples: the table of threads'
	"${slow[@]}" >"$WORK/one.out" || fail "$(<"$WORK/one.out")"
	grep -q '^1 of 1: otelc root, [0-9]* stories, 0 failed, lost [1-9]' "$WORK/one.out" || fail "$(<"$WORK/one.out")"
fi

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
