# SPDX-License-Identifier: Apache-2.0
"""What test/hosts/waits measured of itself, against what its spans say. Usage: span_times.py WHAT HOST SPANS"""
import collections
import json
import sys

LOCK, IO, OTHER = "lock_wait_time_ns", "io_wait_time_ns", None
KINDS = {"sleep": OTHER, "nanosleep": OTHER, "alloca": OTHER, "cond": LOCK, "mutex": LOCK, "futex": LOCK,
         "semop": LOCK, "semtimedop": LOCK, "pipe": IO, "socket": IO, "timeout": IO, "connect": IO, "flock": LOCK,
         "child": OTHER, "poll": IO, "select": OTHER, "epoll": IO, "fault": OTHER, "mixed": OTHER}
CPU, RUNNABLE, BLOCKED = "cpu_time_ns", "runnable_time_ns", "blocked_time_ns"
COUNTS = "page_faults.major", "context_switches.voluntary", "context_switches.involuntary"
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
    """Of each name: what each of its spans says, and how long it was."""
    spans = collections.defaultdict(list)
    with open(path, encoding="utf-8") as file:
        for span in map(json.loads, file):
            said = {key[len("spanprof."):]: value for key, value in span["attributes"].items()
                    if key.startswith("spanprof.")}
            spans[span["name"]].append((said, span["end_ns"] - span["start_ns"]))
    return spans


def sums(name, spans, host):
    """Exact ones: what is between the clocks that the host reads inside of the span and around it."""
    cpu = sum(said[CPU] for said, _ in spans)
    wall, off = host["wall"][name], host["off"][name]
    least, most = wall[0] - off[0], wall[1] - off[1]
    if not least <= cpu <= most:
        fail("%s: %d ns of CPU time instead of %d to %d" % (name, cpu, least, most))
    if not all(BLOCKED in said for said, _ in spans):
        return
    waited = sum(said[RUNNABLE] + said[BLOCKED] for said, _ in spans)
    print("%-8s host %8.1f to %8.1f ms, spans %8.1f ms" % (name, off[0] / MS, off[1] / MS, waited / MS))
    if not off[0] - MS // 2 <= waited <= off[1] + MS // 2:
        fail("%s: %d ns not on a processor instead of %d to %d" % (name, waited, *off))
    if not wall[0] * 0.99 <= cpu + waited <= wall[1] * 1.01:
        fail("%s: %d ns in all instead of %d to %d" % (name, cpu + waited, *wall))


def check_span(name, said, duration):
    for key in (CPU,) + COUNTS:
        if not isinstance(said.get(key), int) or said[key] < 0:
            fail("%s: %s is %s" % (name, key, said.get(key)))
    if (RUNNABLE in said) != (BLOCKED in said) or (LOCK in said) != (IO in said) or \
       (LOCK in said and BLOCKED not in said):
        fail("%s: half of it: %s" % (name, said))
    if BLOCKED not in said:
        return
    total = said[CPU] + said[RUNNABLE] + said[BLOCKED]
    # What it is at least, whole() says.
    if total > duration * 1.01 + MS:
        fail("%s: %d ns of a span of %d" % (name, total, duration))
    if said.get(LOCK, 0) + said.get(IO, 0) > said[BLOCKED]:
        fail("%s: more than blocked: %s" % (name, said))


def whole(name, spans):
    """Their parts make up the duration. Of a few, a busy machine may take long between the SDK's clock and ours."""
    known = [(said[CPU] + said[RUNNABLE] + said[BLOCKED], duration) for said, duration in spans if BLOCKED in said]
    right = sum(total >= duration * 0.99 - MS for total, duration in known)
    if 2 * right < len(known):
        fail("%s: only %d of %d spans are what their parts are in all: %s" % (name, right, len(known), known))


def share(name, spans, keys, least):
    """Of the time that those which know spent off the processor, so much is in these."""
    known = [said for said, _ in spans if BLOCKED in said and LOCK in said]
    off = sum(said[RUNNABLE] + said[BLOCKED] for said in known)
    part = sum(said[key] for said in known for key in keys)
    print("%-8s %2d of %2d spans know, %5.1f %% in %s" % (name, len(known), len(spans), 100 * part / max(off, 1),
                                                      " and ".join(keys)))
    # A busy machine may keep the exporter from looking now and then.
    if 2 * len(known) < len(spans):
        fail("%s: only %d of %d spans know what they waited for" % (name, len(known), len(spans)))
    if part < least * off:
        fail("%s: %d of %d ns in %s" % (name, part, off, keys))


def known(host, spans):
    for name in host["off"]:
        for said, duration in spans[name]:
            check_span(name, said, duration)
            if said["context_switches.voluntary"] == 0:
                fail("%s: it never gave up the processor" % name)
        sums(name, spans[name], host)
        whole(name, spans[name])
        kind = KINDS[name]
        if kind is not OTHER:
            share(name, spans[name], (kind, RUNNABLE), 0.9)
        else:
            share(name, spans[name], (BLOCKED, RUNNABLE), 1)
            wrong = sum(said[key] for said, _ in spans[name] for key in (LOCK, IO) if key in said)
            if wrong > sum(duration for _, duration in spans[name]) / 10:
                fail("%s: %d ns in locks or I/O" % (name, wrong))


def crowd(host, spans):
    for name in host["off"]:
        for said, duration in spans[name]:
            check_span(name, said, duration)
        sums(name, spans[name], host)
        whole(name, spans[name])
    # Of a few threads, spans that wait for each other are too short to be seen.
    if len(spans["sleep"]) > 10:
        share("convoy", spans["convoy"], (LOCK,), 0.7)
        share("starved", spans["starved"], (RUNNABLE,), 0.9)


def nobody(host, spans):
    for name in host["off"]:
        for said, duration in spans[name]:
            check_span(name, said, duration)
            if said.get(BLOCKED, 0) > MS * 100 and LOCK in said:
                fail("%s: it says what it waited for, and nobody may have seen it: %s" % (name, said))
        sums(name, spans[name], host)
    if not any(BLOCKED in said for name in spans for said, _ in spans[name]):
        fail("no span knows how long it was blocked")


def cpu(host, spans):
    for name in host["off"]:
        for said, _ in spans[name]:
            if list(said) != [CPU]:
                fail("%s says %s" % (name, said))


def main():
    what, host, spans = sys.argv[1:]
    {"known": known, "crowd": crowd, "nobody": nobody, "cpu": cpu}[what](host_of(host), spans_of(spans))


main()
