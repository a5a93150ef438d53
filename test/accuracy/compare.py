# SPDX-License-Identifier: Apache-2.0
"""compare.py threads|mix REPORT HOST PERIOD_MS, compare.py roots|grid REPORT HOST PERIOD_MS ERRORS: compares the
profile's nanoseconds with the host's own clocks; exit 0 = within these limits. Those of threads and mix are widened to
the errors that are possible in a run of any length:

  both     the total within 0.5 %
  threads  sum of the spans within 0.5 %, the worst thread within 1 %, equal threads' shares within 1 %
  mix      each span's share, and that of no span, within 1 percentage point at 95 % confidence
  roots    the total within 0.1 %; each span within 2 % and that many standard errors
  grid     the total alone

Possible errors: time without samples is recorded from the clock, so no time may be missing. A thread's
samples count up to one period more than it used, which is subtracted from what other threads lack. The
tick covers the time between the readings of the clocks.

Shares depend on chance: their limit is exceeded by chance once in ten million times, unless the run is long enough
for the percentage point.
"""
import json
import math
import sys

ONCE_IN = 1e-7
NOBODY = "(no span)"


def read(report_path, host_path):
    with open(report_path, encoding="utf-8") as file:
        report = json.load(file)
    with open(host_path, encoding="utf-8") as file:
        words = [line.split() for line in file]
    true = {w[1]: int(w[2]) / 1e6 for w in words if w[0] == "cpu"}
    said = {w[0]: int(w[1]) / 1e6 for w in words if len(w) == 2}
    got = dict.fromkeys(true, 0.0)
    got.update((n["span_name"], n["ns"] / 1e6) for n in report["span_names"] if n["span_name"] in true)
    return got, true, report["total"]["ns"] / 1e6, said["all"], said["tick"]


def tail(n, p, x):
    """The probability that n throws with probability p hit as far off as x or further, on the same side."""
    hits = range(x, n + 1) if x >= n * p else range(0, x + 1)
    logs = math.lgamma(n + 1), math.log(p), math.log1p(-p)
    return math.fsum(math.exp(logs[0] - math.lgamma(k + 1) - math.lgamma(n - k + 1) + k * logs[1]
                              + (n - k) * logs[2]) for k in hits)


def compare_threads(got, true, period, tick):
    failures = []
    spans, right = sum(got.values()), sum(true.values())
    worst = max(true, key=lambda name: abs(got[name] / true[name] - 1))
    ratio = {name: got[name] / true[name] for name in true}
    mean = sum(ratio.values()) / len(ratio)
    spread = max(abs(r / mean - 1) for r in ratio.values())
    print("  sum of the spans %+.3f %%, worst thread %+.3f %%, split: furthest from the mean %.3f %%" % (
        100 * (spans / right - 1), 100 * (ratio[worst] - 1), 100 * spread))
    if abs(spans - right) > max(0.005 * right, len(true) * period + tick):
        failures.append("sum of the spans")
    if abs(got[worst] - true[worst]) > max(0.01 * true[worst], period + tick):
        failures.append("worst thread")
    # each thread is off by up to a period, and so may their mean be
    if spread > max(0.01, 2 * (period + tick) / min(true.values())):
        failures.append("split")
    return failures


def compare_shares(got, true, period, tick):
    failures = []
    # A signal comes at a tick, and may count several periods. Neighbours in one slice of the host are not
    # independent, but then they are right together as well, so chance is no larger.
    n = int(sum(got.values()) / max(period, tick))
    for name in true:
        share = got[name] / sum(got.values())
        right = true[name] / sum(true.values())
        error95 = 1.96 * math.sqrt(right * (1 - right) / n)
        # one less, because the first and the last period of a run are no throws
        off = max(0.0, abs(share - right) * n - 1)
        chance = tail(n, right, round(right * n + math.copysign(off, share - right)))
        print("  %s: %.2f %% profiled, %.2f %% true, %+.2f (95 %% of the time within %.2f)" % (
            name, 100 * share, 100 * right, 100 * (share - right), 100 * error95))
        if abs(share - right) > 0.01 and chance < ONCE_IN:
            failures.append(name)
    return failures


def compare_roots(got, true, period, tick, errors):
    """A name with n samples is off by its n-th part times the root of n: each sample is a tick, and ticks are independent."""
    failures = []
    for name in true:
        error = 1 / math.sqrt(max(true[name], 1) / max(period, tick))
        off = got[name] / max(true[name], 1) - 1
        print("  %6s: %9.1f ms true, %+6.1f %% (standard error %.1f %%)%s" % (
            name, true[name], 100 * off, 100 * error, " FAR" if abs(off) > 0.02 + errors * error else ""))
        if abs(off) > 0.02 + errors * error:
            failures.append(name)
    return failures


def main(kind, report_path, host_path, period_ms, errors=0):
    got, true, total, used, tick = read(report_path, host_path)
    period = float(period_ms)
    print("%s, period %g ms: %.1f ms used, total %+.3f %%" % (
        kind, period, used, 100 * (total / used - 1)))
    failures = []
    if kind in ("roots", "grid"):
        # after the host has read its clock, it prints and ends
        if not -0.3 <= total - used <= max(0.001 * used, 5 * tick):
            failures.append("total")
        by_name = compare_roots(got, true, period, tick, float(errors))
        failures += by_name if kind == "roots" else []
        if failures:
            sys.exit("FAIL: " + ", ".join(failures))
        return
    # the initial thread's period, and the time after the host has read its clocks
    if not -0.3 <= total - used <= max(0.005 * used, (len(true) + 1) * period + tick):
        failures.append("total")
    if kind == "threads":
        failures += compare_threads(got, true, period, tick)
    else:
        got[NOBODY] = total - sum(got.values())
        true[NOBODY] = used - sum(true.values())
        failures += compare_shares(got, true, period, tick)
    if failures:
        sys.exit("FAIL: " + ", ".join(failures))


main(*sys.argv[1:])
