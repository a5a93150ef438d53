#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Under valgrind, whose users look for mistakes of their own: it reports nothing that is ours, the program
# says and returns what it does without us, and its profile arrives.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need valgrind
readonly -a MEMCHECK=(valgrind --quiet --leak-check=full --error-exitcode=9)

# same NAME HOST ARGUMENT: stdout, stderr with valgrind's reports on it, and status.
same()
{
	local name=$1

	shift
	run "$name.plain" "${MEMCHECK[@]}" "$HOSTS/$1" "${@:2}"
	run_under "$name" SPANPROF_OUTPUT_DIR="$WORK/$name.d" "${MEMCHECK[@]}" "$HOSTS/$1" "${@:2}"
	expect_same "$name.plain" "$name" out err rc
	report "$WORK/$name.d" "$WORK/$name.json"
	expect "$WORK/$name.json" 'd["labelled"]["ns"] >= 50e6'
}

same spend spend 200
same handlers handlers 23
grep -q '^one shot: calls 1' "$WORK/handlers.out" || fail "the handlers did not run"

# An SDK whose layout we look at, and two threads. What it prints is times.
run_under spans SPANPROF_OUTPUT_DIR="$WORK/spans.d" "${MEMCHECK[@]}" "$HOSTS/spans" 300
expect_rc spans 0
[[ ! -s $WORK/spans.err ]] || fail "spans: $(<"$WORK/spans.err")"
report "$WORK/spans.d" "$WORK/spans.json"
expect "$WORK/spans.json" 'd["labelled"]["ns"] >= 50e6'
