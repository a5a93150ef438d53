# SPDX-License-Identifier: Apache-2.0
"""Asks a server for each span of reports, each of a type, and compares the nanoseconds, or the bytes."""

import json
import sys
import time
import urllib.request

# As Pyroscope calls them; it names memory by the type of the period.
TYPES = {"cpu": "process_cpu:cpu:nanoseconds:cpu:nanoseconds", "off_cpu": "off_cpu:off_cpu:nanoseconds::",
         "wall": "wall:wall:nanoseconds:wall:nanoseconds", "alloc_space": "memory:alloc_space:bytes:memory:bytes",
         "inuse_space": "memory:inuse_space:bytes:memory:bytes"}


def ask(url, service, began, type_, span):
    """The sum of that span and type that the server has."""
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
    for name in reports:
        type_ = name.rsplit(".", 1)[1]
        with open(name, encoding="utf-8") as file:
            spans = {s["span_id"]: s.get("ns", s.get("bytes")) for s in json.load(file)["spans"] if s["span_id"]}
        assert spans, "no spans of " + type_
        for span, here in spans.items():
            there = ask(url, service, int(began), TYPES[type_], span)
            assert there == here, f"{type_} of {span}: {there}, not {here}"
        said.append(f"{len(spans)} spans of {type_}")
    print(", ".join(said) + " are the same")


main()
