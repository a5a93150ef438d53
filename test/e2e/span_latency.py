# SPDX-License-Identifier: Apache-2.0
"""The label latency and the ids that samples keep, against the spans that the program's SDK wrote. Usage: span_latency.py
classes SPANS REPORT_OF_P50 REPORT_OF_P90 REPORT_OF_P99 REPORT_OF_SLOW | fixed SPANS REPORT MS | ids SPANS REPORT FOLDER |
listed SPANS FOLDER"""
import collections
import json
import pathlib
import sys

CLASSES = "p50", "p90", "p99", "slow"
MS = 1000000


def fail(text):
    sys.exit("FAIL: " + text)


def truth_of(path):
    """The roots of the SDK by id."""
    with open(path, encoding="utf-8") as file:
        return {span["span_id"]: span for span in map(json.loads, file) if span["parent_span_id"] == ""}


def duration(span):
    return span["end_ns"] - span["start_ns"]


def ids_of(path):
    with open(path, encoding="utf-8") as file:
        return {span["span_id"] for span in json.load(file)["spans"]}


def limits_of(truth):
    """By name: the durations up to which roots are in the first three classes."""
    by_name = collections.defaultdict(list)
    for span in truth.values():
        by_name[span["name"]].append(duration(span))
    for name, all_of in by_name.items():
        all_of.sort()
        n = len(all_of)
        slow = max(1, n // 100)
        by_name[name] = [all_of[n - n // 2 - 1], all_of[n - n // 10 - 1], all_of[n - slow - 1]]
    return by_name


def class_of(span, limits, factor):
    """With limits that are wrong by that factor: a bucket of the histogram is at most 6.3 % wide, and the SDK has another clock."""
    for name, limit in zip(CLASSES, limits):
        if duration(span) <= limit * factor:
            return name
    return "slow"


def classes(truth, *reports):
    """Each root with a sample is in the class of its duration, in one alone."""
    told = {}
    for name, report in zip(CLASSES, reports):
        for span_id in ids_of(report):
            if span_id in told or span_id not in truth:
                fail("%s is %s and %s" % (span_id, told.get(span_id), name))
            told[span_id] = name
    limits = limits_of(truth)
    sure = collections.Counter()
    wrong = []
    for span_id, name in told.items():
        span = truth[span_id]
        # Limits that are close to each other are wrong together: any class between the two is allowed.
        first, last = (CLASSES.index(class_of(span, limits[span["name"]], factor)) for factor in (1.08, 0.92))
        allowed = CLASSES[first:last + 1]
        sure[name] += len(allowed) == 1
        if name not in allowed:
            wrong.append("%s of %d ns is %s: %s" % (span["name"], duration(span), name, limits[span["name"]]))
    # The thread may lose its processor between the SDK's reading of the clock and ours.
    if len(wrong) > len(told) // 33:
        fail("%d of %d: %s" % (len(wrong), len(told), wrong[:3]))
    print(sorted(collections.Counter(told.values()).items()), "of them beyond doubt", sorted(sure.items()))
    slowest = max((span for span in truth.values() if span["name"] == "checkout"), key=duration)
    if told.get(slowest["span_id"]) != "slow":
        fail("the slowest checkout is %s" % told.get(slowest["span_id"]))
    # On a busy machine the slowest roots may last nearly as long as the 99th percentile.
    if len(told) < len(truth) // 4 or not sure["p50"]:
        fail("too few roots have a class: %d of %d" % (len(told), len(truth)))


def fixed(truth, report, limit):
    """Slow are those that lasted so many milliseconds, and no others."""
    told = ids_of(report)
    for span_id in told:
        if duration(truth[span_id]) < int(limit) * MS - MS:
            fail("%s of %d ns is slow" % (truth[span_id]["name"], duration(truth[span_id])))
    # Each has tens of samples.
    for span in truth.values():
        if duration(span) > 2 * int(limit) * MS and span["attributes"]["http.route"] == "/slow" and span["span_id"] not in told:
            fail("%s of %d ns is not slow" % (span["name"], duration(span)))


def listed_in(folder):
    spans = []
    for path in pathlib.Path(folder).glob("*.jsonl"):
        for line in path.read_text(encoding="utf-8").splitlines():
            spans += json.loads(line)["resourceSpans"][0]["scopeSpans"][0]["spans"]
    return spans


def ids(truth, report, folder):
    """Only roots that are slow have ids: the listed ones, and those above the 99th percentile. The others' samples are there."""
    with open(report, encoding="utf-8") as file:
        said = json.load(file)
    limits = limits_of(truth)
    kept = {span["span_id"] for span in said["spans"]}
    listed = {span["spanId"] for span in listed_in(folder)}
    wrong = [truth[span_id] for span_id in kept - listed
             if class_of(truth[span_id], limits[truth[span_id]["name"]], 0.92) != "slow"]
    if len(wrong) > len(truth) // 100:
        fail("%d of %d roots have an id and were not slow: %s" % (len(wrong), len(truth), wrong[:3]))
    slowest = max((span for span in truth.values() if span["name"] == "checkout"), key=duration)
    if slowest["span_id"] not in kept:
        fail("the slowest checkout has no id")
    if len(kept) > len(truth) // 20:
        fail("%d of %d roots have ids" % (len(kept), len(truth)))
    print("%d of %d roots have ids, %d are listed" % (len(kept), len(truth), len(listed)))


def listed(truth, folder):
    """A listed root has the values of its attributes, and the error, that the SDK has."""
    failed = 0
    spans = listed_in(folder)
    for span in spans:
        same = truth[span["spanId"]]
        values = {a["key"]: a["value"].get("stringValue") for a in span["attributes"]}
        if values.get("http.route") != same["attributes"]["http.route"]:
            fail("%s has %s instead of %s" % (span["spanId"], values, same["attributes"]))
        if (span.get("status") == {"code": 2}) != (same["status"] == "error"):
            fail("%s has the status %s instead of %s" % (span["spanId"], span.get("status"), same["status"]))
        failed += same["status"] == "error"
    if not failed or failed == len(spans):
        fail("%d of %d listed roots failed" % (failed, len(spans)))


def main():
    how, spans, *rest = sys.argv[1:]
    {"classes": classes, "fixed": fixed, "ids": ids, "listed": listed}[how](truth_of(spans), *rest)


main()
