#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The signal suite: what the table of sampler/README.md says is so. make signals writes the table.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash
# shellcheck source=test/signals/suite.bash
source test/signals/suite.bash

need python3 go

rows=0
while IFS='|' read -r name words; do
	suite_run "$name"
	echo "$name: $STATUS, $SHARE % sampled"
	# The percentage of what is not sampled varies.
	cell=$(suite_cell)
	told=$(awk -F ' *[|] *' -v words="$words" '$2 == words { print $3 }' sampler/README.md)
	# Go's threads begin with all signals blocked and unblock them unseen: whether a scan comes soon
	# enough for so short a run is chance.
	if [[ $name == go_host ]]; then
		told=${told%%,*} cell=${cell%%,*}
	fi
	[[ ${told%% (*} == "${cell%% (*}" ]] || {
		diff "$WORK/$name.plain.out" "$WORK/$name.out" | head -20
		cat "$WORK/$name.err"
		fail "$name: $cell; sampler/README.md says '$told'"
	}
	rows=$((rows + 1))
done < <(suite_cases)
((rows > 20)) || fail "$rows cases"
