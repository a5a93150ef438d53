# SPDX-License-Identifier: Apache-2.0
"""Compares the measurements of test/hosts/waits itself with the attributes of its spans. Usage: span_times.py WHAT
HOST SPANS"""
import collections
import json
import sys

CPU, OFF, RUNNABLE = "cpu_time_ns", "off_cpu_time_ns", "runnable_time_ns"
VOLUNTARY = "context_switches.voluntary"
ALWAYS = {CPU, OFF, "page_faults.major", VOLUNTARY, "context_switches.involuntary"}
MS = 1000000


def fail(text):
    sys.exit("FAIL: " + text)


def host_of(path):
    values = collections.defaultdict(dict)
    with open(path, encoding="utf-8") as file:
        for words in map(str.split, file):
            if len(words) == 4:
                values[words[0]][words[1]] = (int(words[2]), int(words[3]))
    return values


def spans_of(path):
    """For each name: the attributes of its spans, and their durations."""
    spans = collections.defaultdict(list)
    with open(path, encoding="utf-8") as file:
        for span in map(json.loads, file):
            said = {key[len("spanprof."):]: value for key, value in span["attributes"].items()
                    if key.startswith("spanprof.")}
            spans[span["name"]].append((said, span["end_ns"] - span["start_ns"]))
    return spans


def sums(name, spans, host):
    """The values are between those of the clocks that the host reads inside of the span and around it."""
    cpu = sum(said[CPU] for said, _ in spans)
    off = sum(said[OFF] for said, _ in spans)
    host_wall, host_off = host["wall"][name], host["off"][name]
    least, most = host_wall[0] - host_off[0], host_wall[1] - host_off[1]
    print("%-9s host %8.1f to %8.1f ms, spans %8.1f ms" % (name, host_off[0] / MS, host_off[1] / MS, off / MS))
    if not least <= cpu <= most:
        fail("%s: %d ns of CPU time instead of %d to %d" % (name, cpu, least, most))
    if not host_off[0] - MS // 2 <= off <= host_off[1] + MS // 2:
        fail("%s: %d ns not on a processor instead of %d to %d" % (name, off, *host_off))
    if not host_wall[0] * 0.99 <= cpu + off <= host_wall[1] * 1.01:
        fail("%s: %d ns in all instead of %d to %d" % (name, cpu + off, *host_wall))


def check_span(name, said, duration):
    if set(said) - {RUNNABLE} != ALWAYS:
        fail("%s says %s" % (name, said))
    if not all(isinstance(value, int) and value >= 0 for value in said.values()):
        fail("%s: %s" % (name, said))
    if said[CPU] + said[OFF] > duration * 1.01 + MS:
        fail("%s: more than its %d ns: %s" % (name, duration, said))
    if said[VOLUNTARY] == 0 and said.get(RUNNABLE) != said[OFF]:
        fail("%s: it never gave up the processor: %s" % (name, said))
    if said[VOLUNTARY] != 0 and RUNNABLE in said and said[RUNNABLE] > said[OFF]:
        fail("%s: it was runnable for longer than it was off the processor: %s" % (name, said))


def all_spans(host, spans):
    for name in host["off"]:
        for said, duration in spans[name]:
            check_span(name, said, duration)
        sums(name, spans[name], host)


def known(host, spans):
    all_spans(host, spans)
    for name, (off, _) in host["off"].items():
        # The result for which a short span waits may be ready already, so that the span does not wait.
        if off > 100 * MS * len(spans[name]) and any(said[VOLUNTARY] == 0 for said, _ in spans[name]):
            fail("%s: it never gave up the processor" % name)


def crowd(host, spans):
    """Most spans that only take the processors from each other never gave them up voluntarily."""
    all_spans(host, spans)
    starved = [said for said, _ in spans["starved"]]
    print("starved: %d of %d spans know that they were runnable" % (sum(RUNNABLE in s for s in starved), len(starved)))
    if len(starved) > 10 and 2 * sum(RUNNABLE in s for s in starved) < len(starved):
        fail("too few of those that were runnable know it")


def cpu(host, spans):
    for name in host["off"]:
        for said, _ in spans[name]:
            if list(said) != [CPU]:
                fail("%s says %s" % (name, said))


def main():
    what, host, spans = sys.argv[1:]
    {"known": known, "crowd": crowd, "cpu": cpu}[what](host_of(host), spans_of(spans))


main()
