#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Two plugins that each contain a copy of opentelemetry-cpp: the copy that made a span ends it, and the spans of both
# label their samples, even after one plugin was loaded again. In two more programs the context storage outlives the
# SDK, and another library restores the tracer's slot.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash
# shellcheck source=test/common/stories.bash
source test/common/stories.bash

need python3
readonly COPIES=(--plugin "$TEST_LIBS/otelcpp/copy_a/plugin.so" --second "$TEST_LIBS/otelcpp/copy_b/plugin.so")

# The names of ended spans, each behind the letter of the copy that ended it.
names()
{
	python3 -c 'import json, sys
for line in open(sys.argv[1]):
    print(json.loads(line)["name"])' "$1"
}

for story in nested 'held by its scope'; do
	name=${story%% *}
	mkdir "$WORK/plain.$name"
	run "plain.$name" "$TEST_LIBS/conformance/opener" "${COPIES[@]}" --turns --story "$story" "$WORK/plain.$name"
	expect_rc "plain.$name" 7
	tell "$name" "$story" "$TEST_LIBS/conformance/opener" "${COPIES[@]}" --turns
	expect_told "$name"
	expect_same "plain.$name" "$name" out err
	diff <(names "$WORK/plain.$name/spans") <(names "$WORK/$name.d/spans") || fail "$story: ended by the wrong copy"
	[[ $(names "$WORK/$name.d/spans" | cut -c 1 | uniq | tr -d '\n') == ababa ]] || fail "$story: not by turns"
done

# Pointers to an SDK from outside stay valid when the SDK is unloaded and loaded again. An emulator loads it at
# another address.
if [[ -z ${TEST_EMULATOR:-} ]]; then
	readonly RELOADED=("$TEST_LIBS/otelcpp/reloaded/reloaded" "$TEST_LIBS/otelcpp/copy_a/plugin.so" 100)
	run reloaded.plain "${RELOADED[@]}"
	expect_rc reloaded.plain 25
	mkdir "$WORK/reloaded"
	run_under reloaded SPANPROF_OUTPUT_DIR="$WORK/reloaded" SPANPROF_SAMPLE_RATE=250 "${RELOADED[@]}"
	expect_same reloaded.plain reloaded out err rc
	report "$WORK/reloaded" "$WORK/reloaded.json"
	expect "$WORK/reloaded.json" '{n["span_name"] for n in d["span_names"] if n["samples"]} == {"before", "after"}'
fi

# Another library restores the tracer's slot: the SDK's spans are no longer seen, which is reported, and all calls
# still work.
run restored.plain "$TEST_LIBS/otelcpp/restored"
expect_rc restored.plain 25
[[ $(<"$WORK/restored.plain.out") == 'as it was' ]] || fail "the slot was changed without us"
run_under restored "$TEST_LIBS/otelcpp/restored"
expect_same restored.plain restored rc
[[ $(<"$WORK/restored.out") == replaced ]] || fail "the slot was not hooked"
[[ $(grep -c 'is not understood: its spans are not profiled' "$WORK/restored.err") -eq 1 ]] ||
	fail "not said: $(<"$WORK/restored.err")"

# crowd NAME [COUNT OBJECT]...: opens that many copies of each
crowd()
{
	local name=$1 n
	local -a files=()

	shift
	mkdir -p "$WORK/$name/profiles"
	while (($# > 0)); do
		for ((n = 0; n < $1; n++)); do
			files+=("$WORK/$name/${#files[@]}.so")
			cp "$2" "${files[-1]}"
		done
		shift 2
	done
	run_under "$name" SPANPROF_PROFILE=always SPANPROF_OUTPUT_DIR="$WORK/$name/profiles" SPANPROF_FLUSH_TIMEOUT=30s \
		SPANPROF_STATUS_FILE="$WORK/$name.status" "$TEST_LIBS/otelcpp/crowd" "${files[@]}"
	expect_rc "$name" 26
}

# An SDK for which there is no room works without us; that is reported once, and nothing else.
for sdk in churn_hidden churn_named; do
	crowd "$sdk.all" 32 "$TEST_LIBS/otelcpp/$sdk/libchurn.so"
	[[ $(<"$WORK/$sdk.all.out") == '32 of 32' ]] || fail "$sdk: not all are hooked: $(<"$WORK/$sdk.all.out")"
	expect_silent "$sdk.all"
	crowd "$sdk.more" 34 "$TEST_LIBS/otelcpp/$sdk/libchurn.so"
	[[ $(<"$WORK/$sdk.more.out") == '32 of 34' ]] || fail "$sdk: hooked: $(<"$WORK/$sdk.more.out")"
	[[ $(grep -c 'spanprof\[' "$WORK/$sdk.more.err") == 1 ]] || fail "$sdk: $(<"$WORK/$sdk.more.err")"
	grep -qF 'opentelemetry-cpp, ABI v1: more than 32 instances in one program: ' "$WORK/$sdk.more.err" ||
		fail "$sdk: not said: $(<"$WORK/$sdk.more.err")"
	poll_until 10 test -e "$WORK/$sdk.more.status" || fail "$sdk: no status"
	expect "$WORK/$sdk.more.status" \
		"[p['remedy'] for p in d['problems'] if 'more than 32 instances' in p['text']] == ['let its plugins share one library of the SDK']"
done

# Libraries that only read OpenTelemetry's variables do not hide an SDK that comes later.
crowd asked 70 "$TEST_LIBS/otelcpp/crowd_asks.so" 2 "$TEST_LIBS/otelcpp/churn_hidden/libchurn.so"
[[ $(<"$WORK/asked.out") == '2 of 2' ]] || fail "not found after many that ask: $(<"$WORK/asked.out")"
expect_silent asked
