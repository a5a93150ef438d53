#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# check-layers.sh passes on the sources, and fails on each kind of access across layers, and on circles.
set -euo pipefail
# shellcheck source=test/gates/seed.bash
source "$(dirname "$0")/seed.bash"

expect_pass scripts/check-layers.sh

# seed FILE TEXT
seed()
{
	mkdir -p "$work/tree/${1%/*}"
	printf '%b\n' "$2" >"$work/tree/$1"
}

seed sampler/region/ring.c '#include "sampler/region/ring.h"\n#include <stdint.h>'
seed preload/lifecycle/sdk.c '#include "preload/lifecycle/state.h"\n#include "sampler/region/region.h"'
seed export/exporter/main.c '#include "export/export.h"\n#include "sampler/region/region.h"'
seed export/push/http.c '#include "export/push/http.h"\n#include <curl/curl.h>'
expect_pass scripts/check-layers.sh "$work/tree"

# faulty FILE TEXT FAULT [TABLE]: adds a file; the gate must name it together with the fault.
faulty()
{
	seed "$1" "$2"
	expect_fail "$1 $3" scripts/check-layers.sh "$work/tree" "${@:4}"
	rm "$work/tree/$1"
}

faulty sampler/up.c '#include "export/export.h"' 'may not include "export/export.h"'
faulty sampler/up.h '#  include "preload/lifecycle/state.h"' 'may not include "preload/lifecycle/state.h"'
faulty export/up.c '#include "preload/lifecycle/state.h"' 'may not include "preload/lifecycle/state.h"'
faulty preload/inner.c '#include "export/push/http.h"' 'may not include "export/push/http.h"'
faulty preload/door.c '#include "export/export.h"' 'may not include "export/export.h"'
faulty export/exporter/up.c '#include "preload/lifecycle/state.h"' 'may not include "preload/lifecycle/state.h"'
faulty export/report/up.c '#include "preload/lifecycle/state.h"' 'may not include "preload/lifecycle/state.h"'
faulty export/push/push.c '#include <curl/curl.h>' 'may not use curl/curl.h'
faulty export/stack.c '#include <libunwind.h>' 'may not use libunwind.h'
faulty sampler/find.c 'void *f(void) { return dlsym(0, "x"); }' 'may not use dlsym'
faulty preload/find.c 'void *f(void) { return dlvsym(0, "x", "y"); }' 'may not use dlvsym'
faulty export/run.c 'int f(void) { return system("true"); }' 'may not use system'
faulty sampler/bare.c '#include "ring.h"' 'may not include "ring.h"'
faulty sampler/nowhere/new.c 'int x;' 'is in a folder without a rule'

# Comments and strings are not code.
seed sampler/base/text.c '/* dlsym() */ const char *s = "dlsym"; // dlsym'
expect_pass scripts/check-layers.sh "$work/tree"

# Folders, with a separate table.
rm -r "$work/tree"
seed sampler/low/low.h '#include "sampler/low/lower.h"'
seed sampler/low/lower.h 'struct lower;'
seed sampler/high/high.c '#include "sampler/low/low.h"\n#include "sampler/other/one.h"'
seed sampler/other/one.h 'struct one;'
cat >"$work/table" <<'T'
sampler/low   :
sampler/other :
sampler/high  : sampler/low sampler/other/one.h
T
expect_pass scripts/check-layers.sh "$work/tree" "$work/table"
faulty sampler/low/up.c '#include "sampler/high/high.h"' 'may not include "sampler/high/high.h"' "$work/table"
faulty sampler/high/two.c '#include "sampler/other/two.h"' 'may not include "sampler/other/two.h"' "$work/table"

# A circle of folders, also through a single header, and through a folder that no file uses.
{ cat "$work/table"; echo 'sampler/odd : sampler/even'; echo 'sampler/even : sampler/odd'; } >"$work/circle"
expect_fail 'folders may include each other in a circle: sampler/' \
	scripts/check-layers.sh "$work/tree" "$work/circle"
sed 's|^sampler/other.*|& sampler/high/high.h|' "$work/table" >"$work/circle"
expect_fail 'folders may include each other in a circle: sampler/' \
	scripts/check-layers.sh "$work/tree" "$work/circle"
{ cat "$work/table"; echo 'sampler/low : sampler/other'; } >"$work/circle"
expect_fail 'or a second one: sampler/low' scripts/check-layers.sh "$work/tree" "$work/circle"

# A circle of files in one folder, of two and of three.
seed sampler/low/lower.h '#include "sampler/low/low.h"'
expect_fail 'files include each other in a circle: sampler/low/low' \
	scripts/check-layers.sh "$work/tree" "$work/table"
seed sampler/low/lower.h '#include "sampler/low/lowest.h"'
expect_pass scripts/check-layers.sh "$work/tree" "$work/table"
seed sampler/low/lowest.h '#include "sampler/low/low.h"'
expect_fail 'files include each other in a circle: sampler/low/low' \
	scripts/check-layers.sh "$work/tree" "$work/table"

# A circle of headers with their .c files, which is none between two files: through a file beside the header, or the
# handler's file.
seed sampler/low/lower.h 'struct lower;'
rm "$work/tree/sampler/low/lowest.h"
seed sampler/low/low_sig.c '#include "sampler/low/low.h"'
seed sampler/low/lower.c '#include "sampler/low/lower.h"'
expect_pass scripts/check-layers.sh "$work/tree" "$work/table"
for file in lower.c lower_sig.c; do
	seed "sampler/low/$file" '#include "sampler/low/low.h"'
	expect_fail 'nouns include each other in a circle: sampler/low/low' \
		scripts/check-layers.sh "$work/tree" "$work/table"
	rm "$work/tree/sampler/low/$file"
done

mkdir "$work/empty"
expect_fail "no source files" scripts/check-layers.sh "$work/empty"
