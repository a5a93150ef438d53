#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# With SPANPROF_SPAN_CPU_TIME each local root has an attribute with the CPU time that its threads spent in it. It
# equals the host's measurement with the same clocks, for nested roots, roots that change threads, and roots on
# several threads.
# Runs alone: it compares CPU time with clocks to a few per cent.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

# Times need no sample, so there is no link.
unset SPANPROF_ATTRIBUTES

need python3
readonly STORIES=$TEST_LIBS/conformance/debian/lazy
readonly PIECE_MS=40

for story in single nested 'started beside an active span' 'attached on another thread' 'child on another thread'; do
	name=${story// /_}
	mkdir "$WORK/$name"
	run_under "$name" SPANPROF_OUTPUT_DIR="$WORK/$name" SPANPROF_SPAN_CPU_TIME=true SPANPROF_SPAN_NAME_SCOPE=all \
		CONFORMANCE_LABELS='ids=root names=all' "$STORIES" --story "$story" --work "$PIECE_MS" "$WORK/$name"
	expect_rc "$name" 7
	expect_silent "$name"
	python3 - "$story" "$WORK/$name/work" "$WORK/$name/spans" <<'PYTHON'
import collections, json, sys

story, host, exported = sys.argv[1:]
wanted = collections.Counter()
with open(host, encoding="utf-8") as file:
    for line in file:
        root, _, ns, _ = line.split(" ", 3)
        if root != "-":
            wanted[root] += int(ns)
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
        got[s["span_id"]] += value
for name in sorted(set(wanted) | set(got)):
    print("%-30s %s host %8.3f ms, span %8.3f ms" % (story, name, wanted[name] / 1e6,
                                                        got[name] / 1e6))
    # The span also contains the SDK's and our own work around the host's pieces.
    if not -0.5e6 <= got[name] - wanted[name] <= 8e6:
        sys.exit("FAIL: %s: %s" % (story, name))
PYTHON
done

# Off by default.
run_under off SPANPROF_OUTPUT_DIR="$WORK" "$STORIES" --story single --work 1 "$WORK"
! grep -q cpu_time_ns "$WORK/spans" || fail "the attribute is there unasked"
