#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Tells all stories on the newest opentelemetry-cpp, as fetch.sh left it: those of the conformance
# matrix, each sample asked for, and those of test/otelcpp, whose CPU time is compared with the host's
# own measurement. Ends with an error if any of them is wrong.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash
# shellcheck source=test/common/stories.bash
source test/common/stories.bash

need python3
readonly DIR=$TEST_LIBS/sdk-latest
readonly PIECE_MS=120
version=$(cat "$DIR/version")
failed=0

# The program runs on what was fetched, not on this machine's libraries. Of ours it has the object alone.
beside_its_own()
{
	local line

	run_under libraries SPANPROF_OUTPUT_DIR="$WORK" SPANPROF_FLUSH_TIMEOUT=5s OTELC_SPANS_JSON=/dev/null \
		LD_DEBUG=libs LD_DEBUG_OUTPUT="$WORK/loaded" "$DIR/stories" single 50
	sed -n 's/.*calling \(init\|fini\): \([^ ]*\).*/\2/p' "$WORK"/loaded.* | sort -u >"$WORK/objects"
	line=$(grep -v -e "^$DIR/" -e "^$ROOT/build/libspanprof" "$WORK/objects" || true)
	[[ -z $line ]] || fail "not of that distribution: $line"
	grep -q "^$DIR/root/.*/libc\.so\.6" "$WORK/objects" || fail "another C library"
}

# tell STORY SCOPE: in a shell of its own, so that the next one is told as well.
tell()
{
	local story=$1 scope=$2 name=$1.$2

	tell_under "$name" "$scope" "$DIR/stories" "$story" "$PIECE_MS"
	expect_rc "$name" 0
	expect_silent "$name"
	expect_told "$name" "$scope"
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
echo "CPU time by span, as sampled at 250 Hz and as the host measured it:"
for story in $("$DIR/stories"); do
	# what is not recorded, and what is told on stderr, have tests of their own
	[[ $story != unsampled && $story != noop && $story != piled_up && $story != deaf_storage ]] || continue
	for scope in all root; do
		rc=0
		(tell "$story" "$scope") >"$WORK/told" 2>&1 || rc=$?
		printf '%-16s %-5s ' "$story" "$scope"
		if ((rc == 0)); then
			echo right
		else
			failed=1
			echo "WRONG: $(tail -1 "$WORK/told")"
		fi
	done
done
((failed == 0)) || fail "opentelemetry-cpp $version: not all is right"
