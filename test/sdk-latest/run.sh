#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs all stories of the conformance matrix with the opentelemetry-cpp that fetch.sh has downloaded: with a check of
# each sample, and then with a comparison of the profile. Fails if any of them is wrong.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash
# shellcheck source=test/common/stories.bash
source test/common/stories.bash

need python3
readonly DIR=$TEST_LIBS/sdk-latest
version=$(cat "$DIR/version")
failed=0

# The program runs with the downloaded libraries, not with this machine's. Of ours it has only the object.
beside_its_own()
{
	local line

	tell libraries single SPANPROF_FLUSH_TIMEOUT=5s LD_DEBUG=libs LD_DEBUG_OUTPUT="$WORK/loaded" "$DIR/latest/lazy"
	sed -n 's/.*calling \(init\|fini\): \([^ ]*\).*/\2/p' "$WORK"/loaded.* | sort -u >"$WORK/objects"
	line=$(grep -v -e "^$DIR/" -e "^$ROOT/build/libspanprof" "$WORK/objects" || true)
	[[ -z $line ]] || fail "not of that distribution: $line"
	grep -q "^$DIR/root/.*/libc\.so\.6" "$WORK/objects" || fail "another C library"
}

echo "opentelemetry-cpp $version"
beside_its_own
python3 test/conformance/matrix.py run "$SO" "$DIR/latest.json" test/sdk-latest/latest.conf "$DIR" ||
	failed=1

if [[ -d $DIR/source/sdk/src ]]; then
	echo
	python3 test/conformance/matrix.py run "$SO" "$DIR/static.json" test/sdk-latest/static.conf "$DIR" || failed=1
fi

echo
echo "CPU time by span, in the profile and as the stories tell it:"
(tell_all "$DIR/latest/lazy") || failed=1
((failed == 0)) || fail "opentelemetry-cpp $version: not all is right"
