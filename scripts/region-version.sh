#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Usage: region-version.sh [ROOT]. Prints the version of the region that an object and its exporter share, as a C
# definition. It is a sum over all headers of sampler/ that the exporter includes, without their comments: so it
# follows from the layout, and from the constants that give it a meaning. make writes it into build/gen.
set -euo pipefail
cd "${1:-$(dirname "$0")/..}"
export LC_ALL=C

mapfile -t shared < <(grep -rhoE '^#include "sampler/[^"]+' export --include='*.[ch]' | sed 's/.*"//' | sort -u)
# shellcheck disable=SC2086
${CC:-cc} -I. -D_GNU_SOURCE= -MM sampler/region/*.h "${shared[@]}" | tr -s ' \\:' '\n' |
	grep -E '^sampler/.*\.h$' | sort -u |
	xargs cat | sed -zE 's#/\*([^*]|\*+[^*/])*\*+/# #g; s/[[:space:]]+/ /g' | cksum |
	sed -E 's/^([0-9]+) .*/#define SP_REGION_VERSION \1U/'
