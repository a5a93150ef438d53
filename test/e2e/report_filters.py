#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares filters of spanprof-report and of its page with those of "go tool pprof".

usage: report_filters.py profile FILE SEED             writes a profile of random stacks, with much recursion
       report_filters.py compare REPORT FILE FOLDER    all three have the same sums for each set of expressions
"""
import json
import os
import random
import re
import subprocess
import sys

from pprof_writer import Profile

APP, LIBC = "@/srv/x", "@/usr/lib/libq.so.6"
OWN = ["main", "shop::Cart::add(int)", "parse_value", "parse_array", "term", "factor", "walk<int>", "render|page", "emit"]
LIBRARY = ["std::__invoke<F>", "void std::sort<It>(It, It)", "qsort", "memcpy", "std::function<void ()>::operator()() const"]
MARKERS = ["[unsampled cpu]", "[incomplete]"]
# focus, ignore and hide: expressions that mean the same in both of our engines and in Go.
CASES = [
    ("", "", ""), ("parse", "", ""), ("^main$", "", ""), ("", "parse_array", ""), ("", "", "std::"), ("", "", "^(term|factor)$"),
    ("term|factor", "qsort", "parse_.*"), ("emit", "", "emit"), ("", "unsampled cpu", ""), ("", "", "[(]"), ("add\\(int\\)", "", "a"),
    ("p[a-r]+se", "Cart", "^m"), ("", "", "^[^[]"), ("render\\|page", "", ""), ("(par|wal)[^e]*e?", "me{1}mcpy", "invoke|sort"),
]


def profile(path, seed):
    rand = random.Random(seed)
    p = Profile("cpu", 1000000000)
    for _ in range(400):
        stack = ["main" + APP]
        while rand.random() < 0.9 and len(stack) < 40:
            names, place = (OWN, APP) if rand.random() < 0.6 else (LIBRARY, LIBC)
            few = rand.sample(names, rand.randint(1, 3))
            stack += [name + place for name in few] * rand.choice((1, 1, 1, 2, 3))
        if rand.random() < 0.1:
            stack.append(rand.choice(MARKERS))
        count = rand.randint(1, 9)
        labels = {"span_name": rand.choice(("GET /", "parse"))} if rand.random() < 0.5 else {}
        p.sample(stack, count, count * 10 ** 7 + rand.randint(0, 999), **labels)
    p.write(path)


def output(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout


def options(focus, ignore, hide, dash):
    return [f"{dash}{key}={value}" for key, value in (("focus", focus), ("ignore", ignore), ("hide", hide)) if value]


def by_pprof(path, expressions):
    """Maps names to self time and total time, and gives the sum of all remaining samples."""
    command = ["go", "tool", "pprof", "-symbolize=none", "-sample_index=cpu"]
    top = output(*command, "-top", "-unit=ns", "-nodecount=1000000", "-nodefraction=0", "-edgefraction=0",
                 *options(*expressions, "-"), path)
    sums = {}
    for line in top.split("flat%")[1].splitlines()[1:]:
        flat, _, _, cum, _, name = line.split(maxsplit=5)
        sums[name.removesuffix(" (inline)")] = [int(n.removesuffix("ns")) for n in (flat, cum)]
    raw = output(*command, "-raw", *options(*expressions, "-"), path)
    samples = raw.split("Samples:")[1].split("Locations")[0]
    return sums, sum(int(ns) for ns in re.findall(r"^ *\d+ +(\d+): ", samples, re.M))


def by_report(report, path, expressions):
    d = json.loads(output(report, "--json", *options(*expressions, "--"), path))
    return {f["function"]: [f["self_ns"], f["total_ns"]] for f in d["functions"]}, d["total"]["ns"]


def by_folded(report, path, expressions):
    lines = output(report, "--folded", *options(*expressions, "--"), path).splitlines()
    return sum(int(line.rsplit(" ", 1)[1]) for line in lines)


def expect(what, got, wanted):
    if got != wanted:
        differ = {key: (got.get(key), wanted.get(key)) for key in got.keys() | wanted.keys()
                  if got.get(key) != wanted.get(key)} if isinstance(got, dict) else (got, wanted)
        sys.exit(f"FAIL: {what}: {differ}")


def compare(report, path, folder):
    page = os.path.join(folder, "page.html")
    output(report, "--flamegraph", page, path)
    for expressions in CASES:
        sums, whole = by_pprof(path, expressions)
        if not sums:
            sys.exit(f"FAIL: {expressions} leave nothing to compare")
        got, total = by_report(report, path, expressions)
        expect(f"--json {expressions}", got, sums)
        expect(f"total {expressions}", total, whole)
        expect(f"--folded {expressions}", by_folded(report, path, expressions), whole)
        drawn = json.loads(output("node", "test/e2e/report_filters.js", page, *expressions))
        functions = {name: n for name, n in sums.items() if name not in MARKERS}
        expect(f"page {expressions}", drawn[0], functions)
        expect(f"sum of the page {expressions}", drawn[1], whole)
        # A page of filtered samples shows the same without a filter of its own.
        filtered = os.path.join(folder, "filtered.html")
        output(report, "--flamegraph", filtered, *options(*expressions, "--"), path)
        drawn = json.loads(output("node", "test/e2e/report_filters.js", filtered, "", "", ""))
        expect(f"--flamegraph {expressions}", drawn, [functions, whole])


if sys.argv[1] == "profile":
    profile(sys.argv[2], int(sys.argv[3]))
else:
    compare(*sys.argv[2:5])
