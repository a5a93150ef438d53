# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Common parts of the gate tests: a scratch folder with seeded sources, and the two expectations. Every test first
# runs its gate on the real build, then on inputs with one fault each.
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Reads the source from stdin. seed_object NAME [CFLAG...] makes $work/NAME.o of it.
seed_object()
{
	local name=$1

	shift
	gcc -x c -std=gnu11 -O2 -fPIC -fvisibility=hidden "$@" -c -o "$work/$name.o" -
}

# seed_shared NAME [FLAG...] makes $work/NAME.so of the source on stdin.
seed_shared()
{
	local name=$1

	shift
	gcc -x c -std=gnu11 -O2 -fPIC -shared -o "$work/$name.so" - "$@"
}

expect_pass()
{
	if ! "$@" >"$work/output" 2>&1; then
		echo "should have passed: $*"
		cat "$work/output"
		exit 1
	fi
}

# expect_fail TEXT COMMAND...: the command fails, and its output names the fault.
expect_fail()
{
	local text=$1

	shift
	if "$@" >"$work/output" 2>&1; then
		echo "should have failed: $*"
		exit 1
	fi
	if ! grep -qF -e "$text" "$work/output"; then
		echo "failed without naming \"$text\": $*"
		cat "$work/output"
		exit 1
	fi
}
