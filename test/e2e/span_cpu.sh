#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# With SPANPROF_SPAN_CPU_TIME each local root carries the CPU time that its threads spent in it: what
# the host measured with the same clocks, nested, handed over, and on several threads.
# Runs alone: it compares CPU time with clocks to a few per cent.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

# Times need no sample, and so no link.
unset SPANPROF_ATTRIBUTES

need python3
readonly STORIES=$TEST_LIBS/otelcpp/debian/stories
readonly PIECE_MS=40

for story in single nested scopes_decide handed_over parents; do
	mkdir "$WORK/$story"
	run_under "$story" SPANPROF_OUTPUT_DIR="$WORK/$story" SPANPROF_SPAN_CPU_TIME=true \
		OTELC_SPANS_JSON="$WORK/$story.spans" "$STORIES" "$story" "$PIECE_MS"
	expect_rc "$story" 0
	expect_silent "$story"
	python3 - "$story" "$WORK/$story.out" "$WORK/$story.spans" <<'PYTHON'
import collections, json, sys

story, host, exported = sys.argv[1:]
wanted = collections.Counter()
with open(host, encoding="utf-8") as file:
    for line in file:
        word = line.split()
        if word[0] == "cpu" and word[2] != "-":
            wanted[word[2]] += int(word[3])
with open(exported, encoding="utf-8") as file:
    spans = {s["span_id"]: s for s in map(json.loads, file)}
got = collections.Counter()
for s in spans.values():
    value = s["attributes"].get("spanprof.cpu_time_ns")
    if (value is not None) != (s["parent_span_id"] not in spans):
        sys.exit("FAIL: %s: %s has %s" % (story, s["name"], value))
    if value is not None:
        if not isinstance(value, int):
            sys.exit("FAIL: %s: %s is no number" % (story, repr(value)))
        got[s["name"]] += value
for name in sorted(set(wanted) | set(got)):
    print("%-14s %-10s host %8.3f ms, span %8.3f ms" % (story, name, wanted[name] / 1e6,
                                                        got[name] / 1e6))
    # The span also has what the SDK and we do around the host's pieces.
    if not -0.5e6 <= got[name] - wanted[name] <= 8e6:
        sys.exit("FAIL: %s: %s" % (story, name))
PYTHON
done

# Off by default.
run_under off SPANPROF_OUTPUT_DIR="$WORK" OTELC_SPANS_JSON="$WORK/off.spans" "$STORIES" single 1
! grep -q cpu_time_ns "$WORK/off.spans" || fail "the attribute is there unasked"
