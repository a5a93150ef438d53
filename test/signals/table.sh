#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs the signal suite with every signal worth choosing and writes the table of sampler/README.md.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash
# shellcheck source=test/signals/suite.bash
source test/signals/suite.bash

readonly README=sampler/README.md
readonly SIGNALS=(auto SIGURG RTMIN+3 RTMAX-3 SIGPROF)

print_table()
{
	local name words signal

	echo '| what the host does | by default | SIGURG | SIGRTMIN+3 | SIGRTMAX-3 | SIGPROF |'
	echo '|---|---|---|---|---|---|'
	while IFS='|' read -r name words; do
		printf '| %s ' "$words"
		for signal in "${SIGNALS[@]}"; do
			suite_run "$name" "$signal"
			printf '| %s ' "$(suite_cell)"
			echo "$name $signal $STATUS $SHARE" >&2
		done
		echo '|'
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
