#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# opentelemetry-cpp without a symbol: linked statically into the program, hidden and stripped, at any address
# or at one, and in plugins that show one function. What is not laid out as we know it is left alone.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3 nm
readonly CHECK_STORY=$ROOT/test/otelcpp/check.py
readonly PIECE_MS=80
export SPANPROF_SAMPLE_RATE=250 SPANPROF_SPAN_ID_SCOPE=all SPANPROF_SPAN_NAME_SCOPE=all

without_symbols()
{
	if nm -D "$1" | grep -E '_Z(N|TV)[A-Z0-9]*13opentelemetry' >/dev/null ||
		nm "$1" 2>/dev/null | grep . >/dev/null; then
		fail "$1 has symbols"
	fi
}

readonly -A STORIES=(
	[static_v1]="parents remote destroyed own_storage renamed own_attributes unattached"
	[static_v2]="parents destroyed own_attributes unattached"
	[static_nopie]="destroyed own_storage"
)
for build in "${!STORIES[@]}"; do
	host=$TEST_LIBS/otelcpp/$build/stories
	without_symbols "$host"
	for story in ${STORIES[$build]}; do
		name=$build.$story
		mkdir "$WORK/$name"
		run_under "$name" SPANPROF_OUTPUT_DIR="$WORK/$name" SPANPROF_STATUS_FILE="$WORK/status" \
			OTELC_SPANS_JSON="$WORK/$name.spans" "$host" "$story" "$PIECE_MS"
		expect_rc "$name" 0
		# Without scopes the rule is that of a shared SDK (otelcpp_stories.sh).
		if [[ $story == unattached ]]; then
			[[ $(grep -c 'spanprof\[.*: spans interleave' "$WORK/$name.err") == 1 ]] ||
				fail "$name: not said once that spans interleave"
		else
			expect_silent "$name"
		fi
		expect "$WORK/status" \
			'[(s["object"], s["instances"]) for s in d["sdks"]] == [("the program", 1)]'
		expect "$WORK/status" 'd["sdks"][0]["method"].endswith("by run-time type information")'
		echo "$name"
		python3 "$CHECK_STORY" spans "$WORK/$name.out" "$WORK/$name.spans" all
		report "$WORK/$name" "$WORK/$name.json"
		python3 "$CHECK_STORY" cpu "$WORK/$name.out" "$WORK/$name.spans" \
			"$WORK/$name.json" all
	done
	run_under "$build.unsampled" SPANPROF_OUTPUT_DIR="$WORK" "$host" unsampled 1
	expect_rc "$build.unsampled" 0
	[[ -z $(profiles_in "$WORK") ]] || fail "$build: a profile without a recorded span"
done

# One function more than in any release: nothing is hooked, and that is said once.
run foreign "$TEST_LIBS/otelcpp/static_foreign/stories" parents 1
run_under foreign.under SPANPROF_OUTPUT_DIR="$WORK" \
	"$TEST_LIBS/otelcpp/static_foreign/stories" parents 1
expect_rc foreign.under 0
[[ $(grep -c . "$WORK/foreign.under.err") == 1 ]] || fail "not one message: $(<"$WORK/foreign.under.err")"
grep 'opentelemetry-cpp, ABI v1: .*not understood: its spans are not profiled' \
	"$WORK/foreign.under.err" >/dev/null || fail "not told: $(<"$WORK/foreign.under.err")"
[[ -z $(profiles_in "$WORK") ]] || fail "an unknown SDK was profiled"

# Without type information there is nothing to be found by. That is a fact, so it is no warning.
readonly NORTTI=$TEST_LIBS/otelcpp/static_nortti/stories
run nortti "$NORTTI" parents 1
run_under nortti.under SPANPROF_OUTPUT_DIR="$WORK" "$NORTTI" parents 1
expect_rc nortti.under 0
expect_silent nortti.under
run_under nortti.info SPANPROF_LOG_LEVEL=info SPANPROF_OUTPUT_DIR="$WORK" "$NORTTI" parents 1
grep -xE 'spanprof\[[0-9]+\]: no supported OpenTelemetry SDK was found, although the program .*' \
	"$WORK/nortti.info.err" || fail "not said: $(<"$WORK/nortti.info.err")"
[[ $(wc -l <"$WORK/nortti.info.err") == 1 ]] || fail "more than said: $(<"$WORK/nortti.info.err")"
for host in "$TEST_LIBS/otelcpp/debian/stories" "$TEST_LIBS/otelcpp/static_v1/stories"; do
	run_under known SPANPROF_LOG_LEVEL=info SPANPROF_OUTPUT_DIR="$WORK/known" "$host" nested 1
	if grep 'no supported OpenTelemetry SDK' "$WORK/known.err"; then
		fail "$host has one"
	fi
done
[[ -z $(profiles_in "$WORK") ]] || fail "an unknown SDK was profiled"

# Switched off nothing is looked for, so nothing is told.
run_under off SPANPROF_DISABLED=true "$TEST_LIBS/otelcpp/static_foreign/stories" parents 1
expect_rc off 0
expect_silent off

# Two of them in plugins, one of which is unloaded and loaded again.
for copy in copy_c copy_d; do
	without_symbols "$TEST_LIBS/otelcpp/$copy/libstories.so"
done
for story in parents destroyed; do
	mkdir "$WORK/$story"
	run_under "$story" SPANPROF_OUTPUT_DIR="$WORK/$story" OTELC_SPANS_JSON="$WORK/$story.spans" \
		"$TEST_LIBS/otelcpp/copies" "$TEST_LIBS"/otelcpp/copy_{c,d}/libstories.so "$story" 40
	expect_rc "$story" 25
	expect_silent "$story"
	report "$WORK/$story" "$WORK/$story.json"
	python3 - "$WORK/$story.json" "$WORK/$story.spans" <<'P' || fail "$story: labels"
import json
import sys

labelled = {s["span_id"] for s in json.load(open(sys.argv[1]))["spans"] if s["span_id"]}
ended = list(map(json.loads, open(sys.argv[2])))
seen = [s["name"][0] for s in ended if "pyroscope.profile.id" in s["attributes"]]
print(len(labelled), "labelled,", len(seen), "with the attribute, of", len(ended), "spans")
copy = {s["span_id"]: s["name"][0] for s in ended}
if not labelled <= set(copy) or {copy[i] for i in labelled} != {"c", "d"}:
    sys.exit(1)
if len(seen) != len(ended):
    sys.exit(1)
P
done
