#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs the programs of the Open POSIX test suite: test/peers/posix.sh FOLDER [TEST]. Prints "ok TEST" or "fail TEST"
# for each; tests that do not apply here (4: unsupported, 5: untested) are left out.
set -uo pipefail

readonly SUITE=$1/conformance/interfaces ONLY=${2-}
# Some tests wait for ever, with us or without.
readonly LIMIT_S=100

one()
{
	local test=$1 rc=0

	(cd "$SUITE/${test%/*}" && timeout -k 5 "$LIMIT_S" "./${test##*/}.test" </dev/null >/dev/null 2>&1) || rc=$?
	case $rc in
	0) echo "ok $test" ;;
	4 | 5) ;;
	*) echo "fail $test" ;;
	esac
}

if [[ -n $ONLY ]]; then
	one "$ONLY"
else
	find "$SUITE" -name '*.test' -printf '%P\n' | sed 's/\.test$//' | sort | while IFS= read -r test; do
		one "$test"
	done
fi
