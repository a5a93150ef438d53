#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The standard errors in reports of spanprof-report equal those of randomly drawn samples.

usage: report_chance.py REPORT FOLDER
"""
import collections
import json
import os
import random
import statistics
import subprocess
import sys

from pprof_writer import Profile

SHARES = {"half": 0.5, "third": 0.3, "some": 0.15, "few": 0.05}
SAMPLES, DRAWS, SEED = 400, 100, 49


def report(path, *options):
    command = [sys.argv[1], "--json", *options, path]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)["span_names"]


def main(folder):
    rand = random.Random(SEED)
    path = os.path.join(folder, "drawn.pb.gz")
    times, errors = collections.defaultdict(list), collections.defaultdict(list)
    for _ in range(DRAWS):
        drawn = collections.Counter(rand.choices(list(SHARES), list(SHARES.values()), k=SAMPLES))
        p = Profile("cpu", 1000000000)
        for name in SHARES:
            p.sample(["main@/srv/x"], drawn[name], drawn[name] * 10 ** 7, span_name=name)
        p.write(path)
        for row in report(path):
            times[row["span_name"]].append(row["ns"])
            errors[row["span_name"]].append(row["standard_error_ns"])
    for name in SHARES:
        ratio = statistics.mean(errors[name]) / statistics.stdev(times[name])
        # The standard deviation of 100 draws has itself an error of 7 %; 1 / sqrt(n) would be 41 % too much for a
        # share of a half.
        if not 0.85 < ratio < 1.18:
            sys.exit(f"FAIL: {name}: the error told is {ratio:.2f} of what {DRAWS} draws have")
    # A report about one name has the same error: its time is a share of the same samples.
    alone = report(path, "--span-name", "half")
    if [row["standard_error_ns"] for row in alone] != errors["half"][-1:]:
        sys.exit(f"FAIL: {alone}, not {errors['half'][-1]}")


main(sys.argv[2])
