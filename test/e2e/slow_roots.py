# SPDX-License-Identifier: Apache-2.0
"""Slow roots in a folder, against the spans that the program's SDK wrote. Usage: slow_roots.py HOW [WHAT] SPANS FOLDER"""
import collections
import json
import pathlib
import re
import sys

MS = 1000000
NAME = re.compile(r"spanprof-shop-\d+-\d{8}T\d{6}Z-[0-9a-f]{8}-\d{6}-slow\.otlp\.jsonl")
COUNT, P50, P90, P99 = ("spanprof." + key for key in ("roots.count", "duration.p50_ns", "duration.p90_ns",
                                                      "duration.p99_ns"))


compared = 0
late = []


def fail(text):
    sys.exit("FAIL: " + text)


def expect_near(is_near, text):
    """The SDK and the profiler read their clocks one after the other. A thread that loses its processor in between has two
    durations, which may happen to a few roots and not to many (check_late())."""
    global compared
    compared += 1
    if not is_near:
        late.append(text)


def check_late():
    for text in late:
        print("a late clock: " + text)
    if len(late) > 2 + compared // 10:
        fail("%d of %d durations differ" % (len(late), compared))


def truth_of(path):
    """The roots of the SDK by name, the slowest first."""
    roots = collections.defaultdict(list)
    with open(path, encoding="utf-8") as file:
        for span in map(json.loads, file):
            if span["parent_span_id"] == "":
                roots[span["name"]].append(span)
    for spans in roots.values():
        spans.sort(key=lambda span: span["start_ns"] - span["end_ns"])
    return roots


def listed_in(folder):
    """What each file lists."""
    files = []
    for path in sorted(pathlib.Path(folder).glob("*.jsonl")):
        if not NAME.fullmatch(path.name):
            fail("a file is called %s" % path.name)
        text = path.read_text(encoding="utf-8")
        if text.count("\n") != 1 or not text.endswith("\n"):
            fail("%s is not a line" % path.name)
        resource, = json.loads(text)["resourceSpans"]
        about = {a["key"]: a["value"] for a in resource["resource"]["attributes"]}
        if about != {"service.name": {"stringValue": "shop"}, "process.pid": {"intValue": path.name.split("-")[2]}}:
            fail("it is about %s" % about)
        scope, = resource["scopeSpans"]
        if scope["scope"]["name"] != "spanprof":
            fail("the scope is %s" % scope["scope"])
        files.append(scope["spans"])
    return files


def attributes(span):
    return {a["key"]: int(a["value"]["intValue"]) for a in span["attributes"]}


def check_span(span, truth):
    """It is one of the SDK's, as long and at the same time."""
    same = [s for s in truth[span["name"]] if s["span_id"] == span["spanId"]]
    if len(same) != 1 or same[0]["trace_id"] != span["traceId"] or span["kind"] != 2:
        fail("no root of the SDK's: %s" % span)
    start, end = int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"])
    duration = same[0]["end_ns"] - same[0]["start_ns"]
    expect_near(abs(end - start - duration) <= MS,
                "%s lasted %d ns instead of %d" % (span["name"], end - start, duration))
    expect_near(abs(end - same[0]["end_ns"]) <= 5 * MS,
                "%s ended %d ns too late" % (span["name"], end - same[0]["end_ns"]))
    said = attributes(span)
    if not said["spanprof.thread.id"] > 0 or not said[P50] <= said[P90] <= said[P99]:
        fail("%s says %s" % (span["name"], said))
    return duration


def quantile(roots, share):
    """Between which durations it is: where roots are rare, the next one may be much slower, and the SDK's clock is
    another one."""
    ordered = sorted(span["end_ns"] - span["start_ns"] for span in roots)
    rank = -(-len(ordered) * share // 100) - 1
    return ordered[rank - 2], ordered[rank], ordered[rank + 2]


def check_slowest(name, spans, roots, count):
    """They are the slowest so many; roots that are alike within a millisecond are not told apart."""
    if len(spans) != count:
        fail("%s has %d slow roots instead of %d" % (name, len(spans), count))
    if len({span["spanId"] for span in spans}) != count:
        fail("%s has a root twice" % name)
    last = roots[count - 1]["end_ns"] - roots[count - 1]["start_ns"]
    for span in spans:
        expect_near(int(span["endTimeUnixNano"]) - int(span["startTimeUnixNano"]) >= last - MS,
                    "%s is not among the slowest %d of %s" % (span["spanId"], count, name))


def by_name(files):
    spans = collections.defaultdict(list)
    for span in (span for file in files for span in file):
        spans[span["name"]].append(span)
    return spans


def hundredth(truth, files):
    spans = by_name(files)
    if len(files) != 1 or set(spans) != set(truth):
        fail("%d files with %s" % (len(files), sorted(spans)))
    for name, roots in truth.items():
        check_slowest(name, spans[name], roots, max(1, len(roots) // 100))
        said = attributes(spans[name][0])
        if said[COUNT] != len(roots):
            fail("%s has %d roots instead of %d" % (name, said[COUNT], len(roots)))
        for key, share in ((P50, 50), (P90, 90), (P99, 99)):
            least, exact, most = quantile(roots, share)
            print("%-18s %3d %% within %10d ns, by the histogram %10d ns" % (name, share, exact, said[key]))
            if not 0.96 * least - MS // 20 <= said[key] <= 1.04 * most + MS // 20:
                fail("%s: %s is %d, not %d" % (name, key, said[key], exact))


def slowest(truth, files):
    spans = by_name(files)
    if len(files) < 3:
        fail("%d files" % len(files))
    for name, roots in truth.items():
        top = max(roots, key=lambda span: span["end_ns"] - span["start_ns"])
        expect_near(top["span_id"] in {span["spanId"] for span in spans[name]}, "the slowest %s is not listed" % name)
        if len(spans[name]) > len(roots) // 3:
            fail("%d of %d roots of %s are slow" % (len(spans[name]), len(roots), name))


def from_duration(truth, files, what):
    *named, others = what.split(",")
    limits = dict(item.split("=") for item in named)
    spans = by_name(files)
    for name, roots in truth.items():
        limit = int(limits.get(name, others)) * MS
        ids = {span["spanId"] for span in spans[name]}
        print("%s: %d of %d roots from %d ms on" % (name, len(ids), len(roots), limit // MS))
        if not ids:
            fail("no slow root of %s" % name)
        for span in roots:
            duration = span["end_ns"] - span["start_ns"]
            if abs(duration - limit) > MS and (duration >= limit or span["span_id"] in ids):
                expect_near((span["span_id"] in ids) == (duration >= limit),
                            "%s of %d ns: %s" % (name, duration, span["span_id"] in ids))


def times(truth, files):
    """Those that compute use their processor, those that sleep do not."""
    for span in (span for file in files for span in file):
        said = attributes(span)
        whole = int(span["endTimeUnixNano"]) - int(span["startTimeUnixNano"])
        both = said["spanprof.cpu_time_ns"] + said["spanprof.off_cpu_time_ns"]
        expect_near(0.95 * whole <= both <= 1.01 * whole + MS, "%s of %d ns: %s" % (span["name"], whole, said))
        if said["spanprof.page_faults.major"] < 0:
            fail("%s: %s" % (span["name"], said))
        if "spanprof.allocated_bytes" in said:
            fail("nobody has counted bytes")


def main():
    how, *what, spans, folder = sys.argv[1:]
    truth, files = truth_of(spans), listed_in(folder)
    for span in (span for file in files for span in file):
        check_span(span, truth)
    {"hundredth": hundredth, "slowest": slowest, "from": from_duration, "times": times}[how](truth, files, *what)
    check_late()


main()
