# SPDX-License-Identifier: Apache-2.0
"""Compares what a host said it does (stories.cc) with the exported spans and the profile.

  spans HOST SPANS SCOPE        exactly the announced spans were exported, with the announced local
                                roots; SCOPE all or root: and each span whose id can be a label
                                carries it as attribute; SCOPE off: none has an attribute of ours. What
                                the host said that it set itself is there instead
  sampled SPANS REPORT SCOPE    exactly the spans that the profile has samples of carry their id as
                                attribute, and there are others; SCOPE root: a root that a child
                                has outlived may have samples that came after its end
  cpu HOST SPANS REPORT SCOPE   the CPU time under each span name, and outside of spans, is what the
                                host measured, and every label is that of an exported span
"""
import collections
import json
import os
import sys

# A piece of work begins and ends between two samples, and a CPU clock's timer fires at a tick. An
# emulator translates code on the thread that runs it.
SLACK_MS = 60 if "TEST_EMULATOR" in os.environ else 25
# What it translates between the pieces is of no span, and up to 83 ms of it was seen. A label that is
# lost is missed where it belongs, in its span, which gets no more slack for this.
OUTSIDE_MS = 120 if "TEST_EMULATOR" in os.environ else 0
SLACK_SHARE = 0.08


def fail(text):
    print("FAIL: " + text, file=sys.stderr)
    sys.exit(1)


def host_lines(path, kind):
    with open(path, encoding="utf-8") as file:
        return [line.split()[1:] for line in file if line.split()[0] == kind]


def exported_spans(path):
    with open(path, encoding="utf-8") as file:
        return {s["span_id"]: s for s in map(json.loads, file)}


def root_of(exported, span):
    while span["parent_span_id"] in exported:
        span = exported[span["parent_span_id"]]
    return span


def check_spans(host_path, spans_path, scope):
    exported = exported_spans(spans_path)
    got = collections.Counter((s["name"], root_of(exported, s)["name"]) for s in exported.values())
    wanted = collections.Counter(map(tuple, host_lines(host_path, "span")))
    if got != wanted:
        fail("exported spans and roots %s, not %s" % (got, wanted))
    own = collections.defaultdict(dict)
    for name, key, value in host_lines(host_path, "attribute"):
        own[name][key] = value
    for s in exported.values():
        ours = {k: v for k, v in s["attributes"].items() if k.startswith("pyroscope")}
        label = scope == "all" or scope == "root" and root_of(exported, s) is s
        if ours != ({"pyroscope.profile.id": s["span_id"]} if label else {}) | own[s["name"]]:
            fail("%s has the attributes %s" % (s, ours))


def check_sampled(spans_path, report_path, scope):
    exported = exported_spans(spans_path)
    with open(report_path, encoding="utf-8") as file:
        # What a thread had left at its end is no sample, and comes after the span's end.
        sampled = {s["span_id"] for s in json.load(file)["spans"] if s["samples"]} - {""}
    marked = {i for i, s in exported.items() if "pyroscope.profile.id" in s["attributes"]}
    print("%d spans, %d sampled, %d marked" % (len(exported), len(sampled), len(marked)))
    missed = sampled - marked
    if scope == "root":
        missed -= {root_of(exported, s)["span_id"] for s in exported.values()
                   if s["parent_span_id"] in exported}
    if marked - sampled or missed or len(marked) == 0 or len(marked) == len(exported):
        fail("sampled %s, marked %s" % (sorted(sampled), sorted(marked)))


def check_cpu(host_path, spans_path, report_path, scope):
    exported = exported_spans(spans_path)
    wanted = collections.Counter()
    pieces = collections.Counter()
    for own, root, ns in host_lines(host_path, "cpu"):
        name = (own if scope == "all" else root).replace("-", "")
        wanted[name] += int(ns)
        pieces[name] += 1
    with open(report_path, encoding="utf-8") as file:
        report = json.load(file)
    for s in report["spans"]:
        known = exported.get(s["span_id"])
        if s["span_id"] != "" and (known is None or s["span_name"] != known["name"] or
                                   s["trace_id"] != known["trace_id"]):
            fail("label %s, exported %s" % (s, known))
    got = {n["span_name"]: n["ns"] for n in report["span_names"] if n["span_name"] != ""}
    got[""] = report["total"]["ns"] - report["labelled"]["ns"]
    for name in set(got) | set(wanted):
        off_ms = (got.get(name, 0) - wanted[name]) / 1e6
        slack_ms = SLACK_MS * max(1, pieces[name]) ** 0.5 + SLACK_SHARE * wanted[name] / 1e6
        print("%-12s %7.1f ms, %+6.1f" % (name or "(no span)", wanted[name] / 1e6, off_ms))
        if name == "" and off_ms > 0:
            slack_ms += OUTSIDE_MS
        if abs(off_ms) > slack_ms:
            fail("%s: %+.1f ms" % (name or "(no span)", off_ms))


if __name__ == "__main__":
    {"spans": check_spans, "sampled": check_sampled, "cpu": check_cpu}[sys.argv[1]](*sys.argv[2:])
