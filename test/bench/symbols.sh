#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Prints the cost of naming: CPU time of the first name of a file, which reads its symbols, and of a later name.
# Targets: 60 ms for node's 85,000 symbols, 1 us a name.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=test/bench/lib.bash
source test/bench/lib.bash

bench=build/test/symbols/bench
[[ -x $bench ]] || { echo "$bench is not built; run make test-programs" >&2; exit 1; }

for program in node git curl "$(ldd "$bench" | awk '$1 == "libc.so.6" { print $3 }')" \
	"$(ldd build/test/symbols/templates | awk '$1 == "libstdc++.so.6" { print $3 }')" \
	build/test/symbols/templates; do
	path=$(PATH=/usr/bin:/bin type -P "$program" || true)
	if [[ -z $path && -e $program ]]; then
		path=$program
	fi
	if [[ -z $path ]]; then
		echo "$program is not installed"
	else
		"$bench" "$path" | tee "$WORK/named"
	fi
	[[ $program != node || ! -s $WORK/named ]] || {
		read -r _ _ _ first _ _ each _ <"$WORK/named"
		echo "  first: $(answer "first name of node, whose symbols are read" "$first" ms 60)"
		echo "  then: $(answer "a name of node after that" "$each" ns 1000)"
	}
	rm -f "$WORK/named"
done
