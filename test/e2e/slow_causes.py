#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What spanprof-report --slowest --json says of the requests of test/hosts/causes, against the clocks of the program.

usage: slow_causes.py SPANS REPORT RIGHT WRONG    at least so many of 100 causes are named right, at most so many wrong

The program waits for a processor where others use all of them. That is a cause, too, and right if it is one by the
program's clocks: the time that passed, less what it computed, slept and waited for on purpose.
"""
import json
import sys

CAUSES = {"cpu": ("cpu", "inflate"), "lock": ("lock", "POST /refund in bank_reserve"), "sleep": ("sleep", "backoff"),
          "pipe": ("pipe", "ask_pipe"), "none": (None, None)}
SLEEP_NS = 4_000_000


def judge(request, span):
    """"right", "wrong", or "unknown" where nothing is named."""
    kind, what = CAUSES[span["cause"]]
    starved_ns = span["usual_ns"] - span["usual_cpu_ns"] - SLEEP_NS
    if kind == "cpu":
        starved_ns += span["cause_ns"] - span["cause_cpu_ns"]
    is_starved = starved_ns > request["slower_by_ns"] / 4
    named = "unknown" if kind is not None else "right"
    for cause in request["causes"]:
        if cause["for"] == "off_cpu":
            continue
        if cause["for"] == "runnable" and is_starved:
            named = "right"
        elif cause["for"] == kind and what in (cause["held_by"], cause["function"]):
            named = "right"
        elif cause["for"] != kind or cause["held_by" if kind == "lock" else "function"] is not None:
            return "wrong"
    return named


def main(spans_path, report_path, right_least, wrong_most):
    with open(spans_path, encoding="utf-8") as file:
        spans = {s["span_id"]: s["attributes"] for s in map(json.loads, file) if "cause" in s["attributes"]}
    with open(report_path, encoding="utf-8") as file:
        report = json.load(file)
    table = {cause: dict.fromkeys(("right", "wrong", "unknown"), 0) for cause in CAUSES}
    for request in report["requests"]:
        span = spans.pop(request["span_id"], None)
        if span is None:
            continue
        verdict = judge(request, span)
        table[span["cause"]][verdict] += 1
        if verdict != "right":
            print(f"{verdict}: {span['cause']}: {request['sentence']}")
    if spans:
        sys.exit(f"FAIL: {len(spans)} requests are missing")
    for cause, row in table.items():
        print(f"{cause:6}", *(f"{word} {n:3}" for word, n in row.items()))
    sums = {word: sum(row[word] for row in table.values()) for word in table["cpu"]}
    requests = sum(sums.values())
    if sums["right"] * 100 < int(right_least) * requests or sums["wrong"] * 100 > int(wrong_most) * requests:
        sys.exit(f"FAIL: of {requests} causes {sums['right']} are right, {sums['wrong']} wrong")


main(*sys.argv[1:])
