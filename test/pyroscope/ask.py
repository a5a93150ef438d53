# SPDX-License-Identifier: Apache-2.0
"""Asks a server for what was pushed.

  ask.py same PROTOCOL URL SERVICE BEGAN LOST REPORT.TYPE...
      each span of the reports, each of a type, has the same nanoseconds or bytes at the server, and so has each name of
      spans, and all that the report has; of memory in use each span alone. LOST samples of CPU time, or none, are missing;
      then each sum is at most what the report has.
  ask.py series URL SERVICE BEGAN LABEL...
      how many series the server has of the service, and how many values of each label
  ask.py latency URL SERVICE BEGAN HAS_DIFF CLASS=REPORT...
      the server has the same time under the label latency as each report; with HAS_DIFF=1 its comparison of slow requests
      with the others has these sums, too
  ask.py links URL SPANS REPORT.TYPE...
      the link of each exported span that a report has leads to the sum that the report of that type has

BEGAN is in milliseconds; TENANT may be in the environment.
"""

import json
import os
import sys
import time
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
import profile_urls

# Pyroscope's names of types: those of pushed profiles, and those of profiles in OTLP, which it names by their period.
TYPES = {"push": {"cpu": "process_cpu:cpu:nanoseconds:cpu:nanoseconds", "off_cpu": "off_cpu:off_cpu:nanoseconds::",
                  "wall": "wall:wall:nanoseconds:wall:nanoseconds", "alloc_space": "memory:alloc_space:bytes:space:bytes",
                  "inuse_space": "memory:inuse_space:bytes:space:bytes"},
         "otlp": {"cpu": "cpu:cpu:nanoseconds:cpu:nanoseconds", "off_cpu": "off_cpu:off_cpu:nanoseconds::",
                  "wall": "wall:wall:nanoseconds:wall:nanoseconds", "alloc_space": "memory:alloc_space:bytes:memory:bytes",
                  "inuse_space": "memory:inuse_space:bytes:memory:bytes"}}
SAMPLES = "process_cpu:samples:count:cpu:nanoseconds"
# A host's clock may be ahead by this much.
AHEAD_MS = 3600000


def ask(url, call, began, **question):
    """The answer of the server's querier."""
    question = {"start": int(began) - 60000, "end": int(time.time() * 1000) + AHEAD_MS, **question}
    headers = {"Content-Type": "application/json"}
    if os.environ.get("TENANT"):
        headers["X-Scope-OrgID"] = os.environ["TENANT"]
    request = urllib.request.Request(url + "/querier.v1.QuerierService/" + call, json.dumps(question).encode(), headers)
    with urllib.request.urlopen(request, timeout=20) as answer:
        return json.load(answer)


def sum_of(url, service, began, type_, span=None, name=None):
    """The sum of that type that the server has, of a span, of a name or of all."""
    more = "" if name is None else ",span_name=" + profile_urls.quoted(name)
    selector = {"profileTypeID": type_, "labelSelector": '{service_name="%s"%s}' % (service, more)}
    answer = ask(url, "SelectMergeSpanProfile", began, spanSelector=[span], **selector) if span else \
        ask(url, "SelectMergeStacktraces", began, **selector)
    return int(answer.get("flamegraph", {}).get("total", 0))


def same(protocol, url, service, began, lost, *reports):
    """Fails if a sum is not the same."""
    said = []
    for path in reports:
        type_ = path.rsplit(".", 1)[1]
        kind = TYPES[protocol][type_]
        with open(path, encoding="utf-8") as file:
            report = json.load(file)
        unit = "bytes" if "bytes" in report["total"] else "ns"
        here = {"span " + s["span_id"]: s[unit] for s in report["spans"] if s["span_id"]}
        there = {span: sum_of(url, service, began, kind, span=span.split()[1]) for span in here}
        spans = len(here)
        assert report["span_names"], "no samples of " + type_
        # A report has the last profile of memory in use, and the server adds all of them up.
        for name in () if type_ == "inuse_space" else report["span_names"]:
            if name["span_name"]:
                key = "name " + name["span_name"]
                here[key], there[key] = name[unit], sum_of(url, service, began, kind, name=name["span_name"])
        names = len(here) - spans
        if type_ != "inuse_space":
            here["all"], there["all"] = report["total"][unit], sum_of(url, service, began, kind)
        wrong = {k: (there[k], here[k]) for k in here if there[k] > here[k] or (lost == "0" and there[k] != here[k])}
        assert not wrong, f"{type_}: {len(wrong)} of {len(here)} sums differ (there, here): {str(wrong)[:300]}"
        if protocol == "push" and type_ == "cpu":
            arrived = sum_of(url, service, began, SAMPLES)
            assert arrived + int(lost) == report["total"]["samples"], \
                f"{arrived} samples, and {lost} were told as lost, of {report['total']['samples']}"
        said.append(f"{spans} spans and {names} names of {type_}")
    print(", ".join(said) + (" are the same" if lost == "0" else f"; {lost} samples are missing, and told"))


def latency(url, service, began, has_diff, *reports):
    """Fails if a sum is not the same."""
    here, there = {}, {}
    kind = TYPES["push"]["cpu"]
    for item in reports:
        name, path = item.split("=", 1)
        with open(path, encoding="utf-8") as file:
            here[name] = json.load(file)["total"]["ns"]
        selector = {"profileTypeID": kind, "labelSelector": '{service_name="%s",latency="%s"}' % (service, name)}
        there[name] = int(ask(url, "SelectMergeStacktraces", began, **selector).get("flamegraph", {}).get("total", 0))
    assert here == there and all(here.values()), f"latency: {there} at the server, {here} here"
    if has_diff == "1":
        sides = {}
        for side, which in ("left", 'latency=~"p50|p90|p99"'), ("right", 'latency="slow"'):
            sides[side] = {"profileTypeID": kind, "labelSelector": '{service_name="%s",%s}' % (service, which),
                           "start": int(began) - 60000, "end": int(time.time() * 1000) + AHEAD_MS}
        answer = ask(url, "Diff", began, **sides)["flamegraph"]
        ticks = int(answer["leftTicks"]), int(answer["rightTicks"])
        assert ticks == (sum(here.values()) - here["slow"], here["slow"]), f"latency: the diff has {ticks}, here {here}"
    print("latency: the same sums:", ", ".join(f"{name} {n / 1e9:.3f} s" for name, n in here.items()),
          "and their comparison" if has_diff == "1" else "")


def series(url, service, began, *labels):
    """The number of series, and of the values of labels."""
    sets = ask(url, "Series", began, matchers=['{service_name="%s"}' % service]).get("labelsSet", [])
    values = [{p["value"] for s in sets for p in s["labels"] if p["name"] == label} for label in labels]
    print(len(sets), *map(len, values))


def links(url, exported, *reports):
    """CPU time between samples may lie outside of the time that a link shows. The last profile of a process has no more
    than the process has used, so its samples may stand for less than a period."""
    sums = {}
    for name in reports:
        type_ = name.rsplit(".", 1)[1]
        with open(name, encoding="utf-8") as file:
            for span in json.load(file)["spans"]:
                sums[TYPES["push"][type_], span["span_id"]] = span
    followed = {}
    with open(exported, encoding="utf-8") as file:
        for span in map(json.loads, file):
            link = span["attributes"].get(profile_urls.PROFILE_URL, "")
            kind, _ = profile_urls.asks(link) if link else ("", "")
            here = sums.get((kind, span["span_id"]))
            if here is None:
                continue
            there = profile_urls.follow(url, link)
            least, most = (here["bytes"],) * 2 if "bytes" in here else (here["samples"] * 9 * 10 ** 6, here["ns"])
            assert least <= there <= most, f"{link}: {there}, not {least} to {most}"
            followed[kind] = followed.get(kind, 0) + 1
    assert followed, "no links"
    print(", ".join(f"{n} links to {kind}" for kind, n in followed.items()))


{"same": same, "latency": latency, "series": series, "links": links}[sys.argv[1]](*sys.argv[2:])
