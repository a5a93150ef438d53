#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A profiled program has the same threads, descriptors, libraries and children as without us; we add one object and
# one region. hosts.table has programs that depend on having one thread.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

readonly HOST=$HOSTS/outside

run inventory.plain "$HOST" inventory
mkdir "$WORK/profiles"
run_under inventory SPANPROF_OUTPUT_DIR="$WORK/profiles" "$HOST" inventory
expect_same inventory.plain inventory err rc
[[ -n $(profiles_in "$WORK/profiles") ]] || fail "no profile"
sed -E -e '/^mapped .*\/libspanprof\.so$/d' -e '/^mapped \/memfd:(spanprof|OTEL_CTX)/d' "$WORK/inventory.out" |
	diff <(uniq "$WORK/inventory.plain.out") <(uniq) >&2 || fail "something of ours is in the program"
grep -q '^mapped .*/libspanprof\.so$' "$WORK/inventory.out" || fail "it is not under us"
