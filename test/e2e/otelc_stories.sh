#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Programs that use otap-labs/opentelemetry-c: the right span has the CPU time at any moment, whatever
# the host does with spans and contexts.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash
# shellcheck source=test/common/stories.bash
source test/common/stories.bash

need python3
readonly OTELC=$TEST_LIBS/otelc
# Long enough that a wrong label cannot hide in the slack of the comparison.
readonly PIECE_MS=120

# tell NAME SCOPE COMMAND...
tell()
{
	tell_under "$@"
	expect_rc "$1" 7
	expect_told "$1" "$2"
}

for story in nested remote ambient scopes ends refused own_attribute renamed shutdown_between; do
	tell "$story" all "$OTELC/lazy" "$story" "$PIECE_MS"
	expect_silent "$story"
done
# Deeper than our own stack is; the innermost that fits stands for those that do not.
tell full_stack all "$OTELC/lazy" full_stack "$PIECE_MS"
# Nobody's as long as two of them are open, and said once; the attributes go on.
tell unrelated all "$OTELC/lazy" unrelated "$PIECE_MS"
[[ $(grep -c 'spanprof\[.*SPANPROF_ACTIVE_SPAN' "$WORK/unrelated.err") == 1 ]] || fail "interleaving was not said once"
# The labels of roots, and of every way of linking and loading, are the matrix'; CPU time knows of none of them.
tell ambient.root root "$OTELC/lazy" ambient "$PIECE_MS"

# What is not recorded is never profiled.
expect_unprofiled noop 7 FIXTURE_MODE=noop "$OTELC/lazy" silent "$PIECE_MS"
expect_unprofiled unsampled 7 FIXTURE_MODE=unsampled "$OTELC/lazy" silent "$PIECE_MS"
expect_unprofiled shut_down 7 "$OTELC/lazy" shutdown_first "$PIECE_MS"
