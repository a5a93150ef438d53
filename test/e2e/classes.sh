#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Classes of opentelemetry-cpp are found in the files that have them, and in no other file of the machine: 300
# libraries, or with SCAN_FOLDERS="/usr /opt" every file there (make scan).
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

readonly SCAN=$ROOT/build/test/scan/classes
readonly SDK=$TEST_LIBS/otelcpp

printf '%s\n' "$SDK"/{static_v1,static_v2,static_nopie,static_foreign,static_nortti}/stories \
	"$SDK"/copy_{c,d}/plugin.so "$SDK"/v2_stl17/libmini.so >"$WORK/ours"
"$SCAN" <"$WORK/ours" | grep -v '^files' >"$WORK/found"
cat >"$WORK/expected" <<END
found $SDK/static_v1/stories
found $SDK/static_v2/stories
found $SDK/static_nopie/stories
named $SDK/static_foreign/stories
found $SDK/copy_c/plugin.so
found $SDK/copy_d/plugin.so
found $SDK/v2_stl17/libmini.so
END
diff "$WORK/expected" "$WORK/found" || fail "not those that have the classes"

# Objects of other projects, found by the names in their tables of symbols. A file that has the classes without those
# names would be a program with a static SDK, and a test machine has none.
if [[ -n ${SCAN_FOLDERS-} ]]; then
	# shellcheck disable=SC2086
	find $SCAN_FOLDERS -xdev -type f \( -perm -u+x -o -name '*.so*' \) >"$WORK/all" 2>/dev/null || true
else
	for library in "$(dirname "$(realpath "$(ldconfig -p | sed -n 's/.*libc\.so\.6.* => //p' | sed -n 1p)")")"/*.so*; do
		realpath "$library"
	done | sort -u | awk 'NR <= 300 || /opentelemetry/' >"$WORK/all"
fi
"$SCAN" <"$WORK/all" >"$WORK/result"
tail -n 1 "$WORK/result"
[[ $(sed -n 's/^files \([0-9]*\) .*/\1/p' "$WORK/result") -ge 100 ]] || fail "too few files were looked at"
while read -r kind file; do
	[[ $kind != files ]] || continue
	nm -D "$file" 2>/dev/null | grep '13opentelemetry2v[12]3sdk5trace' >/dev/null ||
		[[ $file == *opentelemetry* ]] || fail "$kind in $file"
done <"$WORK/result"
