# SPDX-License-Identifier: Apache-2.0
"""Compares the measurements of test/hosts/waits itself with its profiles. Usage: off_cpu.py COMMAND FILE..."""
import collections
import json
import math
import os
import sys

# The wait of each span: a function of its stack, and one or several possible leaf frames.
WAITS = {
    "sleep": ("pass", "clock_nanosleep (timer)"),
    "nanosleep": ("wait_nanosleep", "nanosleep (timer)"),
    "alloca": ("sleep_in_alloca", "clock_nanosleep (timer)"),
    "cond": ("wait_cond", "futex (lock)"),
    "mutex": ("wait_mutex", "futex (lock)"),
    "futex": ("wait_futex", "futex (lock)"),
    "semop": ("wait_semop", "(lock)"),
    "semtimedop": ("wait_semtimedop", "semtimedop (lock)"),
    "pipe": ("wait_read", "read (pipe)"),
    "socket": ("wait_recv", "recvfrom (socket)"),
    "timeout": ("wait_recv_timeout", "recvfrom (socket)"),
    "connect": ("wait_connect", "connect (socket)"),
    "flock": ("wait_flock", "flock (lock)"),
    # Also the wait until the child executes its program.
    "child": ("wait_child", ("wait4 (child)", "clone3", "clone", "vfork (child)")),
    "poll": ("wait_poll", "poll (events)"),
    "select": ("wait_select", "(timer)"),
    "epoll": ("wait_epoll", "(events)"),
    "fault": ("wait_fault", "[blocked in the kernel]"),
    "mixed": ("wait_mixed", "clock_nanosleep (timer)"),
}
PROCESSOR = "[waiting for a CPU]"


def host_of(path):
    values = collections.defaultdict(dict)
    with open(path, encoding="utf-8") as file:
        for line in file:
            words = line.split()
            if len(words) == 4:
                values[words[0]][words[1]] = (int(words[2]), int(words[3]))
    return values


def sums_of(path):
    with open(path, encoding="utf-8") as file:
        return {n["span_name"]: n["ns"] for n in json.load(file)["span_names"]}


def fail(text):
    sys.exit("FAIL: " + text)


LOOK_NS = 20000000
# About this many threads can be looked at 50 times a second on a busy machine.
LOOKED_AT = 8


def chance_ns(turns, threads):
    """The chance error of a sum over this many spans, each several looks long. At each edge of a span a look comes
    earlier or later than on the average, by the average itself. An error of four times that is hardly ever seen."""
    return 4 * LOOK_NS * max(1, threads / LOOKED_AT) * math.sqrt(2 * turns)


def sums(host, report, kind, turns, threads="19"):
    """The sum of each span name, within 1 % and the chance error."""
    host, got = host_of(host)[kind], sums_of(report)
    chance = chance_ns(int(turns), int(threads))
    for name, (within, around) in sorted(host.items()):
        print("%-8s %-7s host %8.1f to %8.1f ms, profile %8.1f ms, by chance %.1f ms"
              % (kind, name, within / 1e6, around / 1e6, got.get(name, 0) / 1e6, chance / 1e6))
        if not within * 0.99 - chance <= got.get(name, 0) <= around * 1.01 + chance:
            fail("%s: %s: %d instead of %d to %d ns" % (kind, name, got.get(name, 0), within, around))


def stacks(*files):
    """Where spans with the file's name wait."""
    for path in files:
        name = os.path.basename(path).split(".")[0]
        right, other, rooted = stacks_of(name, path)
        # At the end of a span a look may find it where it has already gone on: once in a few turns.
        if other > right * 0.1 or rooted < right:
            fail("%s: %d ns in %s and %s, %d ns elsewhere, %d ns with a root"
                 % (name, right, *WAITS[name], other, rooted))


def seen(*files):
    """These spans were seen waiting in their functions; with a tracer they also wait elsewhere."""
    for path in files:
        name = os.path.basename(path).split(".")[0]
        if stacks_of(name, path)[0] == 0:
            fail("%s: not seen in %s and %s" % (name, *WAITS[name]))


def stacks_of(name, folded):
    """The time in the wait of that name, elsewhere, and in stacks with a root."""
    function, leaf = WAITS[name]
    right = other = rooted = 0
    with open(folded, encoding="utf-8") as file:
        for line in file:
            stack, text = line.rsplit(" ", 1)
            frames, ns = stack.split(";"), int(text)
            # On a busy machine waits for a processor may have any length.
            if frames == [PROCESSOR]:
                continue
            good = function in frames and frames[-1].endswith(leaf) and "go" in frames
            right += ns if good else 0
            other += 0 if good else ns
            rooted += ns if frames[-1] != frames[0] != "[incomplete]" else 0
    print("%-8s %8.1f ms in %s, %.1f ms elsewhere" % (name, right / 1e6, leaf, other / 1e6))
    return right, other, rooted


def share(folded, leaf, least):
    """That wait has at least that share of the time."""
    sums_ = collections.Counter()
    with open(folded, encoding="utf-8") as file:
        for line in file:
            stack, ns = line.rsplit(" ", 1)
            frames = stack.split(";")
            # The holder of the lock is below it.
            sums_[frames[-2 if frames[-1].startswith("held by ") else -1]] += int(ns)
    whole = sum(sums_.values())
    print("%-24s %5.1f %% of the time" % (leaf, 100 * sums_[leaf] / whole if whole else 0))
    if whole == 0 or sums_[leaf] < float(least) * whole:
        fail("%s has %d of %d ns of %s: %s" % (leaf, sums_[leaf], whole, folded, dict(sums_)))


def links(path):
    """How many of the spans that only wait have a link to their profile, and how many such spans there are."""
    with open(path, encoding="utf-8") as file:
        linked = ["pyroscope.profile.id" in span["attributes"] for span in map(json.loads, file)
                  if span["name"] in WAITS and span["name"] != "mixed"]
    print(sum(linked), len(linked))


def types(path, cpu, other="off_cpu", others=None):
    """The link of each span names the type of profile in which it occurs: CPU if it has samples. others: a report of
    the other type, whose ended spans all have a link."""
    with open(cpu, encoding="utf-8") as file:
        sampled = {s["span_id"] for s in json.load(file)["spans"] if s["samples"] > 0}
    linked = set(sampled)
    if others is not None:
        with open(others, encoding="utf-8") as file:
            linked.update(s["span_id"] for s in json.load(file)["spans"])
    seen = collections.Counter()
    with open(path, encoding="utf-8") as file:
        for span in map(json.loads, file):
            url = span["attributes"].get("pyroscope.profile.url")
            if url is None:
                if others is not None and span["span_id"] in linked:
                    fail("%s has no link" % span["name"])
                continue
            wanted = "process_cpu" if span["attributes"]["pyroscope.profile.id"] in sampled else other
            seen[wanted] += 1
            if not url.startswith("http://grafana/%s%%3A" % wanted):
                fail("%s: %s, not of type %s" % (span["name"], url, wanted))
    print("links by type:", dict(seen))
    if not seen[other]:
        fail("no link leads to a profile %s" % other)


def main():
    command, *words = sys.argv[1:]
    {"sums": sums, "stacks": stacks, "seen": seen, "share": share, "links": links, "types": types}[command](*words)


main()
