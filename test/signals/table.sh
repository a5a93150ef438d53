#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs the signal suite and writes the table of sampler/README.md.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash
# shellcheck source=test/signals/suite.bash
source test/signals/suite.bash

readonly README=sampler/README.md

print_table()
{
	local name words

	echo '| what the host does | what comes of it |'
	echo '|---|---|'
	while IFS='|' read -r name words; do
		suite_run "$name"
		echo "| $words | $(suite_cell) |"
		echo "$name $STATUS $SHARE" >&2
	done < <(suite_cases)
}

print_table >"$WORK/table"
awk -v table="$WORK/table" '
/^<!-- end of the signal table -->/ { inside = 0 }
!inside { print }
/^<!-- signal table/ {
	inside = 1
	while ((getline line < table) > 0)
		print line
}' "$README" >"$WORK/readme"
cat "$WORK/readme" >"$README"
