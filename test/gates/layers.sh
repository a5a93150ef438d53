#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# check-layers.sh passes on the sources and bites on each kind of reach across layers.
set -euo pipefail
# shellcheck source=test/gates/seed.bash
source "$(dirname "$0")/seed.bash"

expect_pass scripts/check-layers.sh

mkdir -p "$work"/tree/{sampler,export/{exporter,report},preload}
printf '#include "sampler/ring.h"\n#include <stdint.h>\n' >"$work/tree/sampler/ring.c"
printf '#include "preload/reentrancy_guard.h"\n#include "sampler/region.h"\n' >"$work/tree/preload/init.c"
printf '#include "export/export.h"\n#include "sampler/region.h"\n' >"$work/tree/export/exporter/main.c"
printf '#include "export/http.h"\n#include <curl/curl.h>\n' >"$work/tree/export/http.c"
expect_pass scripts/check-layers.sh "$work/tree"

# faulty FILE TEXT FAULT: one more file, which must be named together with its fault.
faulty()
{
	printf '%s\n' "$2" >"$work/tree/$1"
	expect_fail "$1 may not $3" scripts/check-layers.sh "$work/tree"
	rm "$work/tree/$1"
}

faulty sampler/up.c '#include "export/export.h"' 'include "export/export.h"'
faulty sampler/up.h '#  include "preload/reentrancy_guard.h"' 'include "preload/reentrancy_guard.h"'
faulty export/up.c '#include "preload/reentrancy_guard.h"' 'include "preload/reentrancy_guard.h"'
faulty preload/inner.c '#include "export/http.h"' 'include "export/http.h"'
faulty preload/door.c '#include "export/export.h"' 'include "export/export.h"'
faulty export/exporter/up.c '#include "preload/reentrancy_guard.h"' 'include "preload/reentrancy_guard.h"'
faulty export/report/up.c '#include "preload/reentrancy_guard.h"' 'include "preload/reentrancy_guard.h"'
faulty export/push.c '#include <curl/curl.h>' 'use curl/curl.h'
faulty export/stack.c '#include <libunwind.h>' 'use libunwind.h'
faulty sampler/find.c 'void *f(void) { return dlsym(0, "x"); }' 'use dlsym'
faulty preload/find.c 'void *f(void) { return dlvsym(0, "x", "y"); }' 'use dlvsym'
faulty export/run.c 'int f(void) { return system("true"); }' 'use system'

# Comments and strings are text, not code.
printf '/* dlsym() */ const char *s = "dlsym"; // dlsym\n' >"$work/tree/sampler/text.c"
expect_pass scripts/check-layers.sh "$work/tree"

mkdir "$work/empty"
expect_fail "no source files" scripts/check-layers.sh "$work/empty"
