# SPDX-License-Identifier: Apache-2.0
"""Compares exported spans and a profile with the configured options.

  SPANS REPORT ids=NAMES names=NAMES traces=yes|no|unseen attributes=SPAN:KEYS [SPAN:KEYS]...

ids are the names of the spans whose ids label samples, names the values of span_name; KEYS are the span's attributes
pyroscope.profile.*. Anything that is not listed must be absent. The report lists traces by span id, so without span
ids they are unseen.
"""
import json
import sys

PREFIX = "pyroscope.profile."


def fail(what, got, wanted):
    print("FAIL: %s: %s, not %s" % (what, got, wanted), file=sys.stderr)
    sys.exit(1)


def main(spans_path, report_path, *words):
    with open(spans_path, encoding="utf-8") as file:
        exported = {s["span_id"]: s for s in map(json.loads, file)}
    with open(report_path, encoding="utf-8") as file:
        report = json.load(file)
    samples = report["spans"]
    wanted = dict(w.split("=") for w in words if "=" in w)
    attributes = [wanted["attributes"]] + [w for w in words if "=" not in w]

    def names(text):
        return sorted(n for n in text.split(",") if n != "")

    ids = sorted({exported[s["span_id"]]["name"] for s in samples if s["span_id"] != ""})
    if ids != names(wanted["ids"]):
        fail("ids", ids, wanted["ids"])
    labels = sorted({n["span_name"] for n in report["span_names"]} - {""})
    if labels != names(wanted["names"]):
        fail("names", labels, wanted["names"])
    traces = {s["trace_id"] for s in samples} - {""}
    if wanted["traces"] != "unseen" and bool(traces) != (wanted["traces"] == "yes"):
        fail("traces", traces, wanted["traces"])
    if not traces <= {s["trace_id"] for s in exported.values()}:
        fail("traces", traces, "those of the spans")
    got = {}
    for s in exported.values():
        keys = sorted(k[len(PREFIX):] for k in s["attributes"] if k.startswith(PREFIX))
        if keys:
            got.setdefault(s["name"], keys)
        if got.get(s["name"], []) != keys:
            fail("attributes of " + s["name"], keys, got[s["name"]])
    want = {a.split(":")[0]: sorted(a.split(":")[1].split(",")) for a in attributes if a != ""}
    if got != want:
        fail("attributes", got, want)


if __name__ == "__main__":
    main(*sys.argv[1:])
