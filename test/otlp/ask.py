# SPDX-License-Identifier: Apache-2.0
"""Asks a server for each span of reports (CPU, off-CPU and wall time) and compares the nanoseconds."""

import json
import sys
import time
import urllib.request

TYPES = ("process_cpu:cpu:nanoseconds:cpu:nanoseconds", "off_cpu:off_cpu:nanoseconds::",
         "wall:wall:nanoseconds:wall:nanoseconds")


def ask(url, service, began, type_, span):
    """The nanoseconds of that span and type that the server has."""
    body = {"profileTypeID": type_, "labelSelector": '{service_name="%s"}' % service,
            "spanSelector": [span], "start": began - 60000, "end": int(time.time() * 1000) + 60000}
    request = urllib.request.Request(url + "/querier.v1.QuerierService/SelectMergeSpanProfile",
                                     json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=20) as answer:
        return int(json.load(answer).get("flamegraph", {}).get("total", 0))


def main():
    """Fails at the first span that is not the same."""
    url, service, began, *reports = sys.argv[1:]
    said = []
    for type_, name in zip(TYPES, reports):
        with open(name, encoding="utf-8") as file:
            spans = {s["span_id"]: s["ns"] for s in json.load(file)["spans"] if s["span_id"]}
        assert spans, "no spans of " + type_
        for span, ns in spans.items():
            there = ask(url, service, int(began), type_, span)
            assert there == ns, f"{type_} of {span}: {there}, not {ns}"
        said.append(f"{len(spans)} spans of {type_.split(':')[0]}")
    print(", ".join(said) + " have the same nanoseconds")


main()
