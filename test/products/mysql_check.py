# SPDX-License-Identifier: Apache-2.0
"""Whether our profiles and attributes agree with MySQL's figures for its statements: mysql_check.py SPANS REPORT
OFF_CPU PROFILES STATEMENTS. Prints the comparison, "waiter ID", the span that waited for a row lock, "slowest ID",
and "truth TEXT" for the table; exit status 0 if everything agrees."""

import glob
import gzip
import json
import sys

sys.path.insert(0, "test/common")
from pb import fields, packed

spans_file, report_file, off_cpu_file, profiles, wanted = sys.argv[1:]
wrong = []


def check(holds, text):
    print(("  ok   " if holds else "  FAIL ") + text)
    if not holds:
        wrong.append(text)


def read(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


with open(spans_file, encoding="utf-8") as file:
    spans = {s["span_id"]: s for s in map(json.loads, file)}
statements = [s for s in spans.values() if s["name"] == "stmt"]
report, off_cpu = read(report_file), read(off_cpu_file)


def digest(span):
    return span["attributes"].get("mysql.digest_text", "")


def said(span, key="mysql.cpu_time"):
    return span["attributes"].get(key, 0)


# The load has six kinds of statements, the same number of each.
by_digest = {}
for s in statements:
    by_digest.setdefault(digest(s), []).append(s)
kinds = sorted(by_digest, key=lambda k: (-len(by_digest[k]), k))[:6]
check(sum(len(by_digest[k]) for k in kinds) == int(wanted), "all %s statements of six kinds have arrived" % wanted)

# One by one: MySQL's measurement begins before the span and ends after it, by some tenths of a millisecond.
slow = [s for s in statements if digest(s).startswith("SELECT `BENCHMARK`")]
ours, theirs = (sum(said(s, key) for s in slow) for key in ("spanprof.cpu_time_ns", "mysql.cpu_time"))
off = 100.0 * (ours - theirs) / theirs if theirs else 100.0
check(len(slow) == 3 and abs(off) < 1, "spanprof.cpu_time_ns of %d statements of %.0f ms is mysql.cpu_time (%+.2f %%)" %
      (len(slow), theirs / 1e6 / max(len(slow), 1), off))

def cpu_by_label(key):
    """CPU time by the values of a label, from the profiles in the folder."""
    times = {}
    for path in glob.glob(profiles + "/*.pb.gz"):
        with gzip.open(path) as profile:
            message = list(fields(profile.read()))
        text = [value.decode() for number, value in message if number == 6]
        kinds_of_value = [text[dict(fields(value))[1]] for number, value in message if number == 1]
        if "cpu" not in kinds_of_value:
            continue
        for sample in (list(fields(value)) for number, value in message if number == 2):
            values = [v for number, value in sample if number == 2 for v in packed(value)]
            labels = [dict(fields(value)) for number, value in sample if number == 3]
            label = [text[pair[2]] for pair in labels if text[pair[1]] == key]
            if label:
                times[label[0]] = times.get(label[0], 0) + values[kinds_of_value.index("cpu")]
    return times


# By digest: MySQL sets this attribute after the samples were taken, just before the end.
by_label = cpu_by_label("mysql_digest_text")
sampled = {k: by_label.get(k, 0) for k in kinds}
truth = {k: sum(said(s) for s in by_digest[k]) for k in kinds}
worst = 0.0
print("  sampled  mysql.cpu_time: all, each   of it in its span  statements  mysql.digest_text")
for k in kinds:
    a, b = (100.0 * d[k] / max(sum(d.values()), 1) for d in (sampled, truth))
    worst = max(worst, abs(a - b))
    n = len(by_digest[k])
    print("  %6.2f %%        %6.2f %%  %7.3f ms          %7.3f ms      %6d  %s" % (
        a, b, truth[k] / 1e6 / n, sum(said(s, "spanprof.cpu_time_ns") for s in by_digest[k]) / 1e6 / n, n, k))
# Two points are far beyond chance with 10,000 statements; with few samples, four standard deviations of a share of a
# half may be more.
points = max(2.0, 4 * 50.0 / max(report["labelled"]["samples"], 1) ** 0.5)
check(worst <= points, "shares of CPU time by the label are within %.1f points of mysql.cpu_time (largest %.2f)" %
      (points, worst))
# A sample has the label of its own span, or none if the span was open when a profile ended.
by_id = dict.fromkeys(kinds, 0)
for s in report["spans"]:
    if s["span_id"] in spans and digest(spans[s["span_id"]]) in by_id:
        by_id[digest(spans[s["span_id"]])] += s["ns"]
check(all(sampled[k] <= by_id[k] for k in kinds) and sum(sampled.values()) > 0.9 * sum(by_id.values()),
      "%.2f %% of what their spans have in the profile has it" % (100.0 * sum(sampled.values()) / max(sum(by_id.values()), 1)))
exact = sum(said(s, "spanprof.cpu_time_ns") for s in spans.values())
check(abs(report["labelled"]["ns"] - exact) < 0.05 * exact,
      "labelled samples are the CPU time of all spans (%+.1f %%)" % (100.0 * (report["labelled"]["ns"] - exact) / exact))

# MySQL has no figures for waits.
waited = {s["span_id"]: s["ns"] for s in off_cpu["spans"]}
for text, at_least_s in (("SELECT `SLEEP`", 2.0), ("DELETE FROM `orders`", 2.0)):
    found = [s for s in statements if digest(s).startswith(text)]
    check(len(found) == 1, "one statement %s ..." % text)
    for s in found:
        told = said(s, "spanprof.off_cpu_time_ns")
        check(told > at_least_s * 1e9 and told <= s["end_ns"] - s["start_ns"],
              "%s ... says that it waited %.1f ms of %.1f" % (text, told / 1e6, (s["end_ns"] - s["start_ns"]) / 1e6))
        profile = waited.get(s["span_id"], 0)
        check(abs(profile - told) < 0.2 * told, "and has %.1f ms in the off-CPU profile" % (profile / 1e6))
        if text.startswith("DELETE"):
            print("waiter " + s["span_id"])
print("slowest " + max(statements, key=said)["span_id"])
print("truth shares by statement within %.1f points of `mysql.cpu_time`, slow ones %+.2f %%" % (worst, off))
sys.exit(1 if wrong else 0)
