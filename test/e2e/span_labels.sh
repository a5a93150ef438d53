#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2119
# SPANPROF_SPAN_LABELS: the value that an attribute of a local root has when it ends is a label of its samples, with
# every SDK and in every build of it: given at the start, set later, and just before the end; texts, numbers and
# booleans. Attributes of children, those set after the end, and arrays make none. A strict server takes them.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash
# shellcheck source=test/common/stories.bash
source test/common/stories.bash

need python3 curl
readonly PIECE_MS=60 OTELCPP=$TEST_LIBS/otelcpp
# One profile each: a root that is open when a profile ends has no value in it.
export SPANPROF_FLUSH_TIMEOUT=30s SPANPROF_UPLOAD_INTERVAL=10m

# by NAME [OPTION]...: the values in the folder's profiles.
by()
{
	build/spanprof-report --json --by test.value "${@:2}" "$WORK/$1" >"$WORK/$1.json"
}

# expect_values NAME: those that the host told, each with the CPU time that it told, and no others.
expect_values()
{
	by "$1" || fail "$1: no value at all"
	python3 - "$WORK/$1.out" "$WORK/$1.json" <<'END' || fail "$1: $(<"$WORK/$1.json")"
import json, sys
told = [line.split(" ", 2)[1:] for line in open(sys.argv[1]).read().splitlines() if line.startswith("value ")]
told = {value: int(ns) for ns, value in told}
d = json.load(open(sys.argv[2]))
got = {v["value"]: v["ns"] for v in d["values"]}
if set(got) != set(told) - {"-"}:
    sys.exit("values %s, not %s" % (sorted(got), sorted(told)))
# On a busy machine a span may have the samples of the next one's first milliseconds, or give it its last ones.
for value, ns in got.items():
    if told[value] != 0 and not 0.2 * told[value] < ns < 3 * told[value]:
        sys.exit("%s: %.1f ms, not %.1f" % (value, ns / 1e6, told[value] / 1e6))
timed = [value for value in got if told[value] != 0]
sums = [sum(of[value] for value in timed) for of in (got, told)]
if timed and not 0.7 * sums[1] < sums[0] < 1.3 * sums[1]:
    sys.exit("all: %.1f ms, not %.1f" % (sums[0] / 1e6, sums[1] / 1e6))
END
}

# tell NAME SCOPE RC COMMAND...
tell()
{
	local name=$1 scope=$2 rc=$3

	shift 3
	tell_under "$name" "$scope" SPANPROF_SPAN_LABELS=http.route,test.value "$@" labels "$PIECE_MS"
	expect_rc "$name" "$rc"
	expect_values "$name"
}

for build in debian v1_stl17 v1_stl14 v2_nostd v2_stl17 bsymbolic v1_24 v2_24 nortti quiet static_v1 static_v2 \
	static_nopie; do
	tell "$build" root 0 "$OTELCPP/$build/stories"
	[[ $(grep 'spanprof\[' "$WORK/$build.err") == *"SPANPROF_SPAN_LABELS: test.value is an array, which makes no label" ]] ||
		fail "$build: $(<"$WORK/$build.err")"
done
# Whatever else labels the samples.
tell scope_all all 0 "$OTELCPP/debian/stories"
tell scope_none none 0 SPANPROF_ATTRIBUTES=never "$OTELCPP/debian/stories"
tell copied root 0 SPANPROF_UNWIND=snapshot "$OTELCPP/v2_nostd/stories"
tell otelc root 7 "$TEST_LIBS/otelc/lazy"
tell haproxy_2.2 root 7 "$TEST_LIBS/haproxy/2.2/stories"
tell haproxy_3.3 root 7 "$TEST_LIBS/haproxy/3.3/stories"

# Without the option there is none, and the hint tells what is missing.
tell_under off root "$OTELCPP/debian/stories" labels "$PIECE_MS"
if by off 2>"$WORK/off.why"; then
	fail "a label that nobody asked for"
fi
grep -q 'no sample has the label "test.value"; the program needs SPANPROF_SPAN_LABELS=test.value' "$WORK/off.why" ||
	fail "$(<"$WORK/off.why")"

# In OTLP it is the attribute, with its own name.
tell otlp root 0 SPANPROF_OUTPUT_FORMAT=otlp "$OTELCPP/debian/stories"
gunzip -c "$WORK"/otlp/*.otlp.gz >"$WORK/otlp.bytes"
grep -qaF test.value "$WORK/otlp.bytes" || fail 'no attribute test.value'

# Waiting time, too; and with the CPU time in one profile.
tell_under waits root SPANPROF_SPAN_LABELS=test.value SPANPROF_OFF_CPU=true SPANPROF_WALL=true STORY_WAITS=1 \
	"$OTELCPP/debian/stories" labels 20
for type in off_cpu wall; do
	by waits --type "$type"
	expect "$WORK/waits.json" '{"a text", "-7", "true"} < {v["value"] for v in d["values"]}'
done

# A strict server takes them, and its users find them by name.
double_start
tell_under server root SPANPROF_SPAN_LABELS=test.value,span.id,zone,http.route SPANPROF_LABELS=zone=a \
	SPANPROF_SERVER_ADDRESS="$DOUBLE_URL" "$OTELCPP/debian/stories" labels "$PIECE_MS"
expect_clean_double
range="\"start\": $(($(now_ms) - 600000)), \"end\": $(($(now_ms) + 60000))"
double_query LabelValues "{\"name\": \"test_value\", $range}" "$WORK/values.json"
expect "$WORK/values.json" '{"given at the start", "0.1", "18446744073709551615"} <= set(d["names"])'
grep -q 'SPANPROF_SPAN_LABELS: span.id makes no label: this name has a fixed meaning' "$WORK/server.err" ||
	fail "a name of ours is not told: $(<"$WORK/server.err")"
grep -q 'label "zone" is left out: a label of the series has this name' "$WORK/server.err" ||
	fail "a name of the series is not told: $(<"$WORK/server.err")"

# Too many keys: one line, and no labels.
run_under keys SPANPROF_SPAN_LABELS=a,b,c,d,e SPANPROF_OUTPUT_DIR="$WORK" "$OTELCPP/debian/stories" single 1
expect_rc keys 0
[[ $(grep -c 'SPANPROF_SPAN_LABELS: names more than 4 attributes; ignored' "$WORK/keys.err") == 1 ]] ||
	fail "too many keys: $(<"$WORK/keys.err")"

# More values than are kept apart: the sum stays right, and it is told.
tell_under many root SPANPROF_SPAN_LABELS=test.value SPANPROF_SAMPLE_RATE=1000 \
	SPANPROF_STATUS_FILE="$WORK/many.status" "$OTELCPP/debian/stories" many_labels 8
expect_rc many 0
by many
expect "$WORK/many.json" 'len(d["values"]) == 1001'
expect "$WORK/many.json" 'any(v["value"] == "(other)" for v in d["values"])'
expect "$WORK/many.json" 'sum(v["ns"] for v in d["values"]) > 0.99 * d["labelled"]["ns"]'
expect "$WORK/many.status" 'd["loss"]["span_values_over_limit"] > 0'
grep -q 'too many different values in one interval' "$WORK/many.err" || fail "not told: $(<"$WORK/many.err")"
