#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Usage: region-version.sh [ROOT]. Prints the version of the region that the object and its exporter
# share, as a C definition. The version is a checksum of all headers of sampler/ that the exporter
# includes, without their comments. So the version changes with the layout of the region, and with
# the constants in it. make writes the version into build/gen.
set -euo pipefail
cd "${1:-$(dirname "$0")/..}"
export LC_ALL=C

mapfile -t shared < <(grep -rhoE '^#include "sampler/[^"]+' export --include='*.[ch]' | sed 's/.*"//' | sort -u)
# shellcheck disable=SC2086
${CC:-cc} -I. -D_GNU_SOURCE= -MM sampler/region/*.h "${shared[@]}" | tr -s ' \\:' '\n' |
	grep -E '^sampler/.*\.h$' | sort -u |
	xargs cat | sed -zE 's#/\*([^*]|\*+[^*/])*\*+/# #g; s/[[:space:]]+/ /g' | cksum |
	sed -E 's/^([0-9]+) .*/#define SP_REGION_VERSION \1U/'
