#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Two plugins with a copy each of opentelemetry-cpp inside: every span is ended by the copy that made
# it, and the spans of both label their samples, also after one was loaded anew. And a program with a
# copy of one class of the SDK, one whose context storage outlives the SDK, and one in which the tracer's slot
# is put back.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash
# shellcheck source=test/common/stories.bash
source test/common/stories.bash

need python3 nm
readonly HOST=("$TEST_LIBS/otelcpp/copies" "$TEST_LIBS"/otelcpp/copy_{a,b}/libstories.so)

# The names of ended spans, each behind the letter of the copy that ended it.
names()
{
	python3 -c 'import json, sys
for line in open(sys.argv[1]):
    print(json.loads(line)["name"])' "$1"
}

for story in parents destroyed; do
	run plain OTELC_SPANS_JSON="$WORK/$story.plain.spans" "${HOST[@]}" "$story" 20
	expect_rc plain 25
	tell_under "$story" all "${HOST[@]}" "$story" 20
	expect_same plain "$story" err rc
	diff <(names "$WORK/$story.plain.spans") <(names "$WORK/$story.spans") ||
		fail "$story: ended by the wrong copy"
	report "$WORK/$story" "$WORK/$story.json"
	python3 - "$WORK/$story.json" "$WORK/$story.spans" <<'P' || fail "$story: labels"
import json
import sys

labelled = {s["span_id"] for s in json.load(open(sys.argv[1]))["spans"] if s["span_id"]}
copy = {s["span_id"]: s["name"][0] for s in map(json.loads, open(sys.argv[2]))}
print(len(labelled), "of", len(copy), "spans")
if not labelled <= set(copy) or {copy[i] for i in labelled} != {"a", "b"}:
    sys.exit(1)
P
done

# Its tracers are of a class in the program, its spans of one in the library: all is of one SDK.
readonly OWN=$TEST_LIBS/otelcpp/own_vtable/stories
nm -D "$OWN" | grep ' [BDV] _ZTVN13opentelemetry2v13sdk5trace6TracerE' >/dev/null ||
	fail "no copy of the class"
for story in nested remote destroyed own_storage renamed; do
	name=own_vtable.$story
	tell_under "$name" all "$OWN" "$story" 80
	expect_rc "$name" 0
	expect_silent "$name"
	expect_told "$name" all
done

# What leads to an SDK from outside stays whole when that is unloaded and loaded again. An emulator loads it at
# another place.
if [[ -z ${TEST_EMULATOR:-} ]]; then
	readonly RELOADED=("$TEST_LIBS/otelcpp/reloaded/reloaded" "$TEST_LIBS/otelcpp/copy_a/libstories.so" 100)
	run reloaded.plain "${RELOADED[@]}"
	expect_rc reloaded.plain 25
	mkdir "$WORK/reloaded"
	run_under reloaded SPANPROF_OUTPUT_DIR="$WORK/reloaded" SPANPROF_SAMPLE_RATE=250 "${RELOADED[@]}"
	expect_same reloaded.plain reloaded out err rc
	report "$WORK/reloaded" "$WORK/reloaded.json"
	expect "$WORK/reloaded.json" '{n["span_name"] for n in d["span_names"] if n["samples"]} == {"before", "after"}'
fi

# Something else puts the tracer's slot back: its spans are not told any more, which is said, and all go on.
run restored.plain "$TEST_LIBS/otelcpp/restored"
expect_rc restored.plain 25
[[ $(<"$WORK/restored.plain.out") == 'as it was' ]] || fail "the slot was changed without us"
run_under restored "$TEST_LIBS/otelcpp/restored"
expect_same restored.plain restored rc
[[ $(<"$WORK/restored.out") == replaced ]] || fail "the slot was not hooked"
[[ $(grep -c 'is not understood: its spans are not profiled' "$WORK/restored.err") -eq 1 ]] ||
	fail "not said: $(<"$WORK/restored.err")"
