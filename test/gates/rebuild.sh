#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The Makefile's products follow its sources without "make clean": an added file is linked in, a deleted one is
# removed, other linker flags and another Makefile cause a new link, and nothing else does.
set -euo pipefail
# shellcheck source=test/gates/seed.bash
source "$(dirname "$0")/seed.bash"

# The Makefile finds its sources by wildcard, so a few files in the right folders are a tree that it can build.
mkdir -p "$work"/tree/{sampler/{base,region},preload/lifecycle,export/push,test/unit/sampler,test/common}
mkdir -p "$work"/tree/scripts/{run,carrier,man}
cp Makefile "$work/tree"
cp scripts/region-version.sh "$work/tree/scripts"
echo "struct sp_region;" >"$work/tree/sampler/region/region.h"
cd "$work/tree"
source_of()
{
	echo "int sp_seed_$1(void); int sp_seed_$1(void) { return 0; }"
}
for file in sampler/base/a preload/lifecycle/b export/push/c test/unit/sampler/d; do
	source_of "${file##*/}" >"$file.c"
done
for file in scripts/run/main scripts/carrier/main test/unit/sampler/test_t; do
	echo 'int main(void) { return 0; }' >"$file.c"
done
echo '{ local: *; };' >scripts/exports.map
readonly UNIT=build/asan/test/unit/sampler/test_t
readonly BUILT=(build/libspanprof.so build/spanprof-run build/launcher build/release/export.a "$UNIT")

build()
{
	expect_pass env -u MAKEFLAGS -u MAKELEVEL -u DEV -u CI make -s EXPORT_LIBS= CRITERION_LIBS= "$@" "${BUILT[@]}"
}

# expect_symbols FILE NAME...: of the seeded symbols, the file has exactly these.
expect_symbols()
{
	local found

	found=$(nm "$1" | sed -n 's/.* [Tt] sp_seed_//p' | sort | xargs)
	[[ $found == "${*:2}" ]] || { echo "$1 has \"$found\", not \"${*:2}\""; exit 1; }
}

build
expect_symbols build/libspanprof.so a b
expect_symbols build/release/export.a c
expect_symbols "$UNIT" d
build
[[ ! -s $work/output ]] || { echo 'built anew, although nothing has changed:'; cat "$work/output"; exit 1; }

added=(sampler/base/w preload/lifecycle/x export/push/y test/unit/sampler/z)
for file in "${added[@]}"; do
	source_of "${file##*/}" >"$file.c"
done
build
expect_symbols build/libspanprof.so a b w x
expect_symbols build/release/export.a c y
expect_symbols "$UNIT" d z
rm "${added[@]/%/.c}"
build
expect_symbols build/libspanprof.so a b
expect_symbols build/release/export.a c
expect_symbols "$UNIT" d

build LDFLAGS=-Wl,--defsym=sp_linked_anew=1
for file in build/libspanprof.so build/spanprof-run build/launcher "$UNIT"; do
	nm "$file" | grep ' sp_linked_anew$' >/dev/null || { echo "$file was not linked with the new flags"; exit 1; }
done
build
sed -i 's/-z,nodelete/-z,initfirst/' Makefile
build
readelf -d build/libspanprof.so | grep INITFIRST >/dev/null || { echo 'a new Makefile does not link anew'; exit 1; }
