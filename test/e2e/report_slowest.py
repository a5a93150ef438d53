#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Slow requests with known causes, for spanprof-report --slowest.

usage: report_slowest.py make FOLDER exact|sampled TRUTH   a folder as the exporter writes it, and the causes in JSON
       report_slowest.py judge REPORT TRUTH RIGHT WRONG    at least so many of 100 causes are named right, at most so many wrong

Samples are drawn by chance, as the exporter draws them: 100 times a second on a processor, and looks at waits at random
instants, 50 a second, each of which stands for the waiting time since the one before.
"""
import json
import random
import sys

from pprof_writer import Profile

BEGIN_S = 1_700_000_000
PROGRAM, LIBC, MARK = "/srv/shopd", "/lib/x86_64-linux-gnu/libc.so.6", "[spanprof]"
MAIN = [f"main@{PROGRAM}", f"shop::handle@{PROGRAM}"]
USUAL = {"checkout": (20, 12, 400), "search": (4, 2, 4000)}  # ms on a processor, ms for a socket, requests
LOCK = [*MAIN, f"shop::reserve@{PROGRAM}", f"pthread_mutex_lock@{LIBC}", f"futex (lock)@{MARK}"]

# What is injected: for, function or holder, and the stack; none = a usual request.
CAUSES = {
    "cpu": ("cpu", "shop::inflate", [*MAIN, f"shop::inflate@{PROGRAM}"]),
    "lock": ("lock", "POST /refund in shop::pay", [*LOCK, f"held by POST /refund in shop::pay@{MARK}"]),
    "sleep": ("sleep", "shop::backoff", [*MAIN, f"shop::backoff@{PROGRAM}", f"clock_nanosleep (timer)@{MARK}"]),
    "file": ("file", "shop::save", [*MAIN, f"shop::save@{PROGRAM}", f"fsync@{LIBC}", f"fsync (file)@{MARK}"]),
    "socket": ("socket", "shop::bank", [*MAIN, f"shop::bank@{PROGRAM}", f"recvfrom (socket)@{MARK}"]),
    "starved": ("runnable", None, [f"[waiting for a CPU]@{MARK}"]),
    "none": (None, None, None),
}


class Folder:
    def __init__(self, rnd):
        self.rnd = rnd
        self.cpu = Profile("cpu", BEGIN_S, 600)
        self.waits = Profile("off_cpu", BEGIN_S, 600)

    def run(self, stack, ms, labels):
        samples = sum(1 for _ in self.arrivals(ms, 10))
        if samples:
            self.cpu.sample(stack, samples, samples * 10 ** 7, **labels)

    def wait(self, stack, ms, labels):
        looks = list(self.arrivals(ms, 20))
        # The first look also stands for what other requests of the thread have waited since the look before.
        ns = sum(self.rnd.expovariate(1 / 20e6) for _ in looks)
        if looks:
            self.waits.sample(stack, len(looks), int(ns), **labels)

    def arrivals(self, ms, mean):
        at = self.rnd.expovariate(1 / mean)
        while at < ms:
            yield at
            at += self.rnd.expovariate(1 / mean)


def span(request, has_exact):
    name, cpu, off = request["name"], request["cpu"], request["off"]
    usual_cpu, usual_off, count = USUAL[name]
    median = usual_cpu + usual_off
    values = {"roots.count": count, "duration.p50_ns": median * 10 ** 6, "duration.p90_ns": median * 2 * 10 ** 6,
              "duration.p99_ns": median * 9 * 10 ** 6}
    if has_exact:
        values.update({"cpu_time_ns": int(cpu * 1e6), "off_cpu_time_ns": int(off * 1e6)})
    end = BEGIN_S * 10 ** 9 + request["at_ns"]
    return {"traceId": "%032x" % request["number"], "spanId": request["id"], "name": name, "kind": 2,
            "startTimeUnixNano": str(end - int((cpu + off) * 1e6)), "endTimeUnixNano": str(end),
            "attributes": [{"key": "spanprof." + key, "value": {"intValue": str(n)}} for key, n in values.items()]}


def make(path, how, truth_path):
    rnd = random.Random(51)
    folder = Folder(rnd)
    truth, lines = {}, []
    number = 0
    for name, (cpu, off, count) in USUAL.items():
        # All other requests of the name, each too short for its id to matter.
        labels = {"span_name": name}
        folder.run(MAIN, cpu * count, labels)
        folder.wait([*MAIN, f"recvfrom (socket)@{MARK}"], off * count, labels)
        for cause in CAUSES:
            for _ in range(20):
                number += 1
                request = {"number": number, "id": f"{number:016x}", "name": name, "at_ns": number * 10 ** 9,
                           "cpu": cpu * rnd.uniform(0.97, 1.03), "off": off * rnd.uniform(0.97, 1.03)}
                labels = {"span_name": name, "span_id": request["id"]}
                folder.run(MAIN, request["cpu"], labels)
                folder.wait([*MAIN, f"recvfrom (socket)@{MARK}"], request["off"], labels)
                kind, what, stack = CAUSES[cause]
                if kind is not None:
                    ms = rnd.uniform(150, 600)
                    if kind == "cpu":
                        folder.run(stack, ms, labels)
                        request["cpu"] += ms
                    else:
                        folder.wait(stack, ms, labels)
                        request["off"] += ms
                truth[request["id"]] = [cause, kind, what]
                lines.append(span(request, how == "exact"))
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "shop"}},
                               {"key": "process.pid", "value": {"intValue": "123"}}]}
    stem = "spanprof-shop-123-20231114T221320Z-0a1b2c3d-00000"
    folder.cpu.write(f"{path}/{stem}1.pb.gz")
    folder.waits.write(f"{path}/{stem}2-off_cpu.pb.gz")
    with open(f"{path}/{stem}3-slow.otlp.jsonl", "w", encoding="utf-8") as file:
        for part in (lines[0::2], lines[1::2]):
            file.write(json.dumps({"resourceSpans": [{"resource": resource, "scopeSpans": [
                {"scope": {"name": "spanprof"}, "spans": part}]}]}) + "\n")
    with open(truth_path, "w", encoding="utf-8") as file:
        json.dump(truth, file)


def judge(report_path, truth_path, right_least, wrong_most):
    with open(report_path, encoding="utf-8") as file:
        report = json.load(file)
    with open(truth_path, encoding="utf-8") as file:
        truth = json.load(file)
    table = {cause: [0, 0, 0] for cause in CAUSES}
    for request in report["requests"]:
        cause, kind, what = truth.pop(request["span_id"])
        named = [c for c in request["causes"] if c["for"] != "off_cpu"]
        wrong = [c for c in named if c["for"] != kind or what not in (None, c["held_by"], c["function"])]
        # A lock whose holder is not sure is named without one, and CPU time without a function.
        wrong = [c for c in wrong if c["for"] != kind or (c["held_by"] or kind == "cpu" and c["function"])]
        if wrong:
            print(f"wrong: {cause}: {request['sentence']}")
        table[cause][1 if wrong else 0 if (kind is None) != bool(named) else 2] += 1
    if truth:
        sys.exit(f"FAIL: {len(truth)} requests are missing")
    print(f"{'cause':10} {'right':>6} {'wrong':>6} {'unknown':>8}")
    for cause, row in table.items():
        print(f"{cause:10} {row[0]:6} {row[1]:6} {row[2]:8}")
    right, wrong, unknown = (sum(row[i] for row in table.values()) for i in range(3))
    requests = right + wrong + unknown
    if right * 100 < right_least * requests or wrong * 100 > wrong_most * requests:
        sys.exit(f"FAIL: of {requests} causes {right} are right, {wrong} wrong")


what, *args = sys.argv[1:]
if what == "make":
    make(*args)
else:
    judge(args[0], args[1], int(args[2]), int(args[3]))
