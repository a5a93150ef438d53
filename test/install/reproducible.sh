#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Two builds of the same sources in different folders, with different umasks and locales and at different times, give
# the same bytes: packages, carrier, SBOM. "make reproducible" runs it.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need dpkg-buildpackage dh rpmbuild patchelf git
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH CCACHE_DISABLE=1
for place in one two/deeper; do
	mkdir -p "$WORK/$place"
	git ls-files -z --cached --others --exclude-standard | tar --null --ignore-failed-read -cf - -T - |
		tar -C "$WORK/$place" -xf -
	cp -r .git "$WORK/$place/.git"
done

# build FOLDER
build()
{
	(cd "$WORK/$1" && env -u MAKEFLAGS -u MAKELEVEL make -s SPANPROF_SKIP_DEPS=1 all carrier &&
		scripts/build-deb.sh build/dist && scripts/build-rpm.sh build/dist && scripts/dist.sh build/dist) >"$WORK/log" 2>&1 || {
		tail -n 20 "$WORK/log" >&2
		fail "$1 does not build"
	}
}
build one
(umask 077; export LC_ALL=C.UTF-8 TZ=Asia/Tokyo; build two/deeper)
for object in libspanprof.so libspanprof-alloc.so spanprof-exporter spanprof-run spanprof-report libspanprof-stub32.so; do
	cmp "$WORK/one/build/$object" "$WORK/two/deeper/build/$object" || fail "$object differs"
done
diff "$WORK/one/build/dist/SHA256SUMS" "$WORK/two/deeper/build/dist/SHA256SUMS" || fail "the files of dist differ"
(($(wc -l <"$WORK/one/build/dist/SHA256SUMS") >= 5)) || fail "too little was built"
cat "$WORK/one/build/dist/SHA256SUMS"
