# SPDX-License-Identifier: Apache-2.0
"""Checks of JSON documents for the shell scripts of this folder; exit 0 = true.

  ask FILE EXPRESSION          prints the value of a Python expression over the document d; of a report
                               also over what words() names
  spans REPORT SPANS SCOPE     every labelled span of the report was exported by the SDK, with its
                               name and trace; SCOPE root: and it is a local root
  shares REPORT HOST POINTS GROUP...
                               each GROUP "name=part+part" has the share of the CPU time in spans
                               that the host measured ("cpu part ns" lines), within POINTS; the
                               host's span "first" is empty and not asked for
"""
import json
import os
import sys


def read_json(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def read_lines(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def fail(text):
    print("FAIL: " + text, file=sys.stderr)
    sys.exit(1)


def words(d):
    """The terms in hosts.table: times of the report in milliseconds, and the spans in the file $SPANS that have our
    attributes."""
    def attributes():
        with open(os.environ["SPANS"], encoding="utf-8") as file:
            return sum("pyroscope.profile.id" in line for line in file)

    return {
        "total": d["total"]["ns"] / 1e6, "labelled": d["labelled"]["ns"] / 1e6, "unsampled": d["residual"]["ns"] / 1e6,
        "names": {n["span_name"] for n in d["span_names"]} - {""},
        "below": lambda name: sum(f["total_ns"] for f in d["functions"] if f["function"].startswith(name)) / 1e6,
        "attributes": attributes() if "SPANS" in os.environ and os.path.exists(os.environ["SPANS"]) else 0,
    }


def ask(path, expression):
    d = read_json(path)
    print(eval(expression, {"d": d, **(words(d) if "span_names" in d and "ns" in d.get("residual", {}) else {})}))  # the scripts' own words


def spans(report_path, spans_path, scope):
    exported = {s["span_id"]: s for s in read_lines(spans_path)}
    labelled = [s for s in read_json(report_path)["spans"] if s["span_id"] != ""]
    if not labelled:
        fail("no labelled span at all")
    for s in labelled:
        known = exported.get(s["span_id"])
        if known is None:
            fail("span %s was never exported" % s["span_id"])
        if s["span_name"] != known["name"] or s["trace_id"] != known["trace_id"]:
            fail("span %s is %s, exported as %s" % (s["span_id"], s, known))
        if scope == "root" and known["parent_span_id"] != "":
            fail("span %s is not a root" % s["span_id"])
    for s in exported.values():
        profile_id = s["attributes"].get("pyroscope.profile.id")
        wanted = s["span_id"] if scope == "all" or s["parent_span_id"] == "" else None
        if profile_id != wanted:
            fail("span %s has the profile id %s, not %s" % (s["span_id"], profile_id, wanted))


def shares(report_path, host_path, points, *groups):
    report = read_json(report_path)
    with open(host_path, encoding="utf-8") as file:
        measured = {w[1]: int(w[2]) for w in map(str.split, file) if w[0] == "cpu"}
    wanted = {}
    for group in groups:
        name, parts = group.split("=")
        wanted[name] = sum(measured[part] for part in parts.split("+"))
    got = {n["span_name"]: n["ns"] for n in report["span_names"] if n["span_name"] not in ("", "first")}
    if set(got) != set(wanted):
        fail("span names %s, not %s" % (sorted(got), sorted(wanted)))
    for name in wanted:
        share = 100 * got[name] / sum(got.values())
        true_share = 100 * wanted[name] / sum(wanted.values())
        print("%s: %.1f %% profiled, %.1f %% true" % (name, share, true_share))
        if abs(share - true_share) > float(points):
            fail("the share of %s" % name)
    total = 100 * sum(got.values()) / sum(wanted.values())
    print("in spans: %.1f %% of what the host used there" % total)
    if abs(total - 100) > float(points):
        fail("CPU time in spans")


if __name__ == "__main__":
    {"ask": ask, "spans": spans, "shares": shares}[sys.argv[1]](*sys.argv[2:])
