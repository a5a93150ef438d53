#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2119
# SPANPROF_SPAN_LABELS: the value of a local root's attribute at its end becomes a label of its samples, with every
# SDK in every build. The attribute may be given at the start, set later, or just before the end; it may be a text,
# number or boolean. Attributes of children, attributes set after the end, and arrays make no label. A strict server
# takes the labels.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash
# shellcheck source=test/common/stories.bash
source test/common/stories.bash

need python3 curl
readonly STORY='values for labels' DEBIAN=$TEST_LIBS/conformance/debian/lazy
# One profile for each run: if a root is open when a profile ends, the profile has no value of it.
export SPANPROF_FLUSH_TIMEOUT=30s SPANPROF_UPLOAD_INTERVAL=10m SPANPROF_SPAN_LABELS=http.route,test.value

# by NAME [OPTION]...: the attribute's values in the folder's profiles.
by()
{
	build/spanprof-report --json --by test.value "${@:2}" "$WORK/$1.d" >"$WORK/$1.json"
}

for host in conformance/{otelc,haproxy22,haproxy33,debian,v1_stl17,v1_stl14,v2_nostd,v2_stl17,bsymbolic,v1_24,v2_24}/lazy \
	otelcpp/{nortti,quiet,static_v1,static_v2,static_nopie}/stories; do
	tell "$(basename "${host%/*}")" "$STORY" "$TEST_LIBS/$host"
	expect_told "$(basename "${host%/*}")"
done
# With every other source of labels.
tell roots "$STORY" CONFORMANCE_LABELS='ids=root names=all' SPANPROF_SPAN_ID_SCOPE=root SPANPROF_SPAN_NAME_SCOPE=all \
	"$DEBIAN"
tell nothing "$STORY" CONFORMANCE_LABELS=unseen SPANPROF_SPAN_ID_SCOPE=none SPANPROF_SPAN_NAME_SCOPE=none "$DEBIAN"
tell copied "$STORY" SPANPROF_UNWIND=snapshot "$TEST_LIBS/conformance/v2_nostd/lazy"
for name in roots nothing copied; do
	expect_told "$name"
done
# Samples of the thread's own timer.
PIECE=(--work 100)
tell works "$STORY" SPANPROF_SAMPLE_RATE=250 "$DEBIAN"
expect_told works

# Without the option there is no label, and the hint says what is missing.
PIECE=(--samples 1)
tell off "$STORY" SPANPROF_SPAN_LABELS= "$DEBIAN"
if by off 2>"$WORK/off.why"; then
	fail "a label that nobody asked for"
fi
grep -q 'no sample has the label "test.value"; the program needs SPANPROF_SPAN_LABELS=test.value' "$WORK/off.why" ||
	fail "$(<"$WORK/off.why")"

# In OTLP the label is the attribute, with its original name.
tell otlp "$STORY" SPANPROF_OUTPUT_FORMAT=otlp "$DEBIAN"
gunzip -c "$WORK"/otlp.d/*.otlp.gz >"$WORK/otlp.bytes"
grep -qaF test.value "$WORK/otlp.bytes" || fail 'no attribute test.value'

# Waiting time, too; also with the CPU time in one profile.
tell waits "$STORY" SPANPROF_OFF_CPU=true SPANPROF_WALL=true STORY_WAITS=1 "$DEBIAN"
for type in off_cpu wall; do
	by waits --type "$type"
	expect "$WORK/waits.json" '{"a text", "-7", "true"} < {v["value"] for v in d["values"]}'
done

# A strict server takes the labels, and queries find them by name.
double_start
tell server "$STORY" SPANPROF_SPAN_LABELS=test.value,span.id,zone,http.route SPANPROF_LABELS=zone=a \
	SPANPROF_SERVER_ADDRESS="$DOUBLE_URL" "$DEBIAN"
expect_clean_double
range="\"start\": $(($(now_ms) - 600000)), \"end\": $(($(now_ms) + 60000))"
double_query LabelValues "{\"name\": \"test_value\", $range}" "$WORK/values.json"
expect "$WORK/values.json" '{"given at the start", "0.1", "18446744073709551615"} <= set(d["names"])'
grep -q 'SPANPROF_SPAN_LABELS: span.id makes no label: this name has a fixed meaning' "$WORK/server.err" ||
	fail "a name of ours is not told: $(<"$WORK/server.err")"
grep -q 'label "zone" is left out: a label of the series has this name' "$WORK/server.err" ||
	fail "a name of the series is not told: $(<"$WORK/server.err")"

# Too many keys: one message, and no labels.
tell keys single SPANPROF_SPAN_LABELS=a,b,c,d,e "$DEBIAN"
[[ $(grep -c 'SPANPROF_SPAN_LABELS: names more than 4 attributes; ignored' "$WORK/keys.err") == 1 ]] ||
	fail "too many keys: $(<"$WORK/keys.err")"

# More values than can be distinguished: the sum stays right, and there is a message.
tell many '1,300 values' SPANPROF_STATUS_FILE="$WORK/many.status" "$DEBIAN"
by many
expect "$WORK/many.json" 'len(d["values"]) == 1001'
expect "$WORK/many.json" '{v["value"]: v["ns"] for v in d["values"]}["(other)"] == 300e9'
expect "$WORK/many.json" 'sum(v["ns"] for v in d["values"]) == 1300e9'
expect "$WORK/many.status" 'd["loss"]["span_values_over_limit"] == 300'
grep -q 'too many different values in one interval' "$WORK/many.err" || fail "not told: $(<"$WORK/many.err")"
