#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times of samples of slow requests, against the program's clocks and against the profiles without times.

usage: slow_times.py sums FOLDER              the samples with times are those of the profiles: stack by stack, root by root
       slow_times.py phases TRUTH PAGE        edges of the phases of test/hosts/phases in the page's time lines
       slow_times.py lines PAGE               the time lines add up to the flame graphs of their requests
"""
import collections
import glob
import gzip
import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "common"))
from pb import fields, packed  # noqa: E402 pylint: disable=wrong-import-position

SAMPLE, LOCATION, FUNCTION, STRING = 2, 4, 5, 6
PHASES = ("parse_order", "ask_bank", "render_page")
WAIT = "ask_bank"
ALONE_MS = 150
WITHIN_MS = 10  # and that much more by which the request was longer than its phases
TIMES = "*-slow.pprof.gz"


def samples_of(path):
    """Each sample: its values, its stack by names of functions, and its labels."""
    with gzip.open(path) as file:
        message = list(fields(file.read()))
    strings = [body.decode() for number, body in message if number == STRING]
    functions, locations = {}, {}
    for number, body in message:
        if number == FUNCTION:
            function = dict(fields(body))
            functions[function[1]] = strings[function[2]]
    for number, body in message:
        if number == LOCATION:
            lines = [dict(fields(b)) for n, b in fields(body) if n == 4]
            locations[dict(fields(body))[1]] = tuple(functions[line[1]] for line in lines)
    for number, body in message:
        if number != SAMPLE:
            continue
        stack, values, labels = [], [], {}
        for n, part in fields(body):
            if n == 1:
                for location in packed(part):
                    stack.extend(locations[location])
            elif n == 2:
                values.extend(packed(part))
            elif n == 3:
                label = dict(fields(part))
                labels[strings[label[1]]] = strings[label[2]] if 2 in label else label.get(3, 0)
        yield values, tuple(stack), labels


def roots_of(folder):
    roots = {}
    for path in glob.glob(os.path.join(folder, "*-slow.otlp.jsonl")):
        with open(path, encoding="utf-8") as file:
            for line in file:
                for resource in json.loads(line)["resourceSpans"]:
                    for scope in resource["scopeSpans"]:
                        roots.update({span["spanId"]: span for span in scope["spans"]})
    return roots


def sums(folder):
    roots = roots_of(folder)
    timed, plain = collections.Counter(), collections.Counter()
    times = samples = 0
    for path in glob.glob(os.path.join(folder, TIMES)):
        for values, stack, labels in samples_of(path):
            root = roots[labels["span_id"]]
            start, end = int(root["startTimeUnixNano"]), int(root["endTimeUnixNano"])
            if not start <= labels["end_timestamp_ns"] <= end + 1_000_000:
                sys.exit(f"FAIL: a sample at {labels['end_timestamp_ns'] - start} ns of a root of {end - start} ns")
            if labels["thread_id"] <= 0 or labels["trace_id"] != root["traceId"]:
                sys.exit(f"FAIL: labels {labels}")
            timed[labels["span_id"], stack] += values[1]
            times += 1
    for path in glob.glob(os.path.join(folder, "*.pb.gz")):
        for values, stack, labels in samples_of(path):
            if labels.get("span_id") in roots and stack[0] != "[unsampled cpu]":
                plain[labels["span_id"], stack] += values[1]
                samples += values[0]
    if not times or times != samples or timed != plain:
        sys.exit(f"FAIL: {times} samples with times, {samples} in the profiles; {len(timed - plain)} stacks have more, "
                 f"{len(plain - timed)} less")
    print(f"{times} samples of {len({span for span, _ in timed})} slow roots have times")


def page_of(path):
    with open(path, encoding="utf-8") as file:
        html = file.read()
    if "<img" in html:
        sys.exit("FAIL: the name of a span is HTML")
    return json.loads(re.search(r'<script type="application/json" id="requests">(.*?)</script>', html, re.S)[1])


def segments_of(page, request, thread):
    """Begin and end in microseconds, the names of the stack, and the part."""
    stacks, names = request["stacks"], page["names"]
    for i in range(0, len(thread["segments"]), 4):
        begin, end, node, part = thread["segments"][i:i + 4]
        stack = []
        while node:
            stack.append(names[stacks[3 * (node - 1) + 1]])
            node = stacks[3 * (node - 1)]
        yield begin, end, stack, page["parts"][part]


def phases(truth, page):
    page = page_of(page)
    with open(truth, encoding="utf-8") as file:
        told = [tuple(map(int, line.split())) for line in file]
    errors, late, missing = [], 0, collections.Counter()
    for request in page["requests"]:
        mine = next((t for t in told if abs(t[0] / 1000 - request["start_us"]) < 1000), None)
        if mine is None:
            continue
        told.remove(mine)
        # Where others use the processor, a phase of computing is longer, and its samples are as much further apart.
        within_ms = WITHIN_MS + max(0, (mine[3] - mine[0]) / 1e6 - ALONE_MS)
        segments = list(segments_of(page, request, request["threads"][0]))
        for i, phase in enumerate(PHASES):
            found = [(begin, end) for begin, end, stack, _ in segments if phase in stack]
            if not found:
                missing[phase] += 1
                continue
            for at, is_at in ((min(found)[0], mine[i]), (max(found)[1], mine[i + 1])):
                error = abs(at / 1000 - (is_at / 1e6 - request["start_us"] / 1e3))
                errors.append(error)
                late += error > within_ms
    errors.sort()
    print(f"{len(errors)} edges: median {errors[len(errors) // 2]:.1f} ms, 90 % {errors[len(errors) * 9 // 10]:.1f} ms, "
          f"the worst {errors[-1]:.1f} ms; {late} are wrong; phases missing {dict(missing)}, "
          f"{len(told)} requests missing")
    # There are 2.5 looks at a wait of 50 ms on the average, at random times, and none at 8 of 100 waits.
    waits = len(page["requests"])
    if (told or missing[WAIT] * 5 > waits * 2 or sum(missing.values()) - missing[WAIT] > waits // 10 or
            late * 20 > len(errors)):
        sys.exit("FAIL: phases are not where they were")


def lines(page):
    """The CPU time of a line, and its waits, are those of the flame graph, but for what was measured and not sampled."""
    page = page_of(page)
    n = 0
    for request in page["requests"]:
        for thread in request["threads"]:
            at = None
            for begin, end, _, _ in segments_of(page, request, thread):
                if end <= begin or (at is not None and begin != at):
                    sys.exit(f"FAIL: a segment from {begin} to {end} behind one that ends at {at}")
                at = end
            n += 1
        flame = request["flame"]
        inside = {page["names"][flame[i + 1]] for i in range(0, len(flame), 6)}
        line = {page["names"][request["stacks"][i + 1]] for i in range(0, len(request["stacks"]), 3)}
        if line - inside or inside - line - {"[unsampled cpu]", "_start", "start_thread"}:
            sys.exit(f"FAIL: functions of the line {line - inside}, of the flame graph {inside - line}")
    print(f"{n} lines of {len(page['requests'])} requests")


if __name__ == "__main__":
    {"sums": sums, "phases": phases, "lines": lines}[sys.argv[1]](*sys.argv[2:])
