# SPDX-License-Identifier: Apache-2.0
"""compare.py threads|mix REPORT HOST PERIOD_MS: the profile's nanoseconds per span against the
host's own clocks; exit 0 = within the limits of issue 4, which a short run cannot reach by less than
what single samples weigh: that is added.

  threads  sum within 0.5 %, the worst thread within 1 %, equal threads share within 1 %
  mix      each span's share within 1 percentage point at 95 % confidence
"""
import json
import math
import sys

# What a thread may have used since the last tick at which timers are looked at: 4 ms at 250 Hz, and
# several times that in a virtual machine whose host is busy.
TICKS_MS = 30.0


def main(kind, report_path, host_path, period_ms):
    with open(report_path, encoding="utf-8") as file:
        got = {n["span_name"]: n["ns"] / 1e6 for n in json.load(file)["span_names"]}
    with open(host_path, encoding="utf-8") as file:
        true = {w[1]: int(w[2]) / 1e6 for w in map(str.split, file) if w[0] == "cpu"}
    got = {name: got.get(name, 0.0) for name in true}
    grain_ms = max(float(period_ms), TICKS_MS)
    sum_error = abs(sum(got.values()) - sum(true.values()))
    failures = []
    print("%s, period %s ms: %.1f ms used, sum %+.2f %%" % (
        kind, period_ms, sum(true.values()), 100 * (sum(got.values()) / sum(true.values()) - 1)))
    if sum_error > 0.005 * sum(true.values()) + grain_ms * math.sqrt(len(true)):
        failures.append("sum")
    if kind == "threads":
        worst = max(true, key=lambda name: abs(got[name] - true[name]) / true[name])
        print("  worst thread %+.2f %%" % (100 * (got[worst] / true[worst] - 1)))
        if abs(got[worst] - true[worst]) > 0.01 * true[worst] + 1.5 * grain_ms:
            failures.append("worst thread")
        mean = sum(got.values()) / len(got)
        spread = max(abs(ms - mean) for ms in got.values())
        print("  split: furthest from the mean %.2f %%" % (100 * spread / mean))
        if spread > 0.01 * mean + 1.5 * grain_ms:
            failures.append("split")
    else:
        for name in true:
            share = got[name] / sum(got.values())
            right = true[name] / sum(true.values())
            # samples that are one another's neighbours are one: a signal comes with a tick
            n = sum(got.values()) / max(float(period_ms), 4.0)
            noise = 1.96 * math.sqrt(right * (1 - right) / n)
            print("  %s: %.2f %% profiled, %.2f %% true, chance alone +-%.2f" % (
                name, 100 * share, 100 * right, 100 * noise))
            if abs(share - right) > max(0.01, 2 * noise):
                failures.append(name)
    if failures:
        sys.exit("FAIL: " + ", ".join(failures))


main(*sys.argv[1:])
