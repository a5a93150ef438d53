# SPDX-License-Identifier: Apache-2.0
"""What test/hosts/waits measured of itself, against what its profiles say. Usage: off_cpu.py COMMAND FILE..."""
import collections
import json
import math
import os
import sys

# What each span waits in: a function of its stack, and the frame of what it waits for, or several.
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
    # Until it executes its program, too.
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
# So many can be looked at 50 times a second, about, on a busy machine.
LOOKED_AT = 8


def chance_ns(turns, threads):
    """What chance may add to the sum of so many spans, which last for several looks, or take from it: at either edge of
    each a look comes sooner or later than on the average, by the average itself. Four times that is hardly ever seen."""
    return 4 * LOOK_NS * max(1, threads / LOOKED_AT) * math.sqrt(2 * turns)


def sums(host, report, kind, turns, threads="19"):
    """The sum of each span name, within 1 % and what chance may do."""
    host, got = host_of(host)[kind], sums_of(report)
    chance = chance_ns(int(turns), int(threads))
    for name, (within, around) in sorted(host.items()):
        print("%-8s %-7s host %8.1f to %8.1f ms, profile %8.1f ms, by chance %.1f ms"
              % (kind, name, within / 1e6, around / 1e6, got.get(name, 0) / 1e6, chance / 1e6))
        if not within * 0.99 - chance <= got.get(name, 0) <= around * 1.01 + chance:
            fail("%s: %s: %d instead of %d to %d ns" % (kind, name, got.get(name, 0), within, around))


def stacks(*files):
    """Where the spans wait whose name the file has."""
    for path in files:
        name = os.path.basename(path).split(".")[0]
        right, other, rooted = stacks_of(name, path)
        # At its end a look may find it where it has already gone on: of some turns, once.
        if other > right * 0.1 or rooted < right:
            fail("%s: %d ns in %s and %s, %d ns elsewhere, %d ns with a root"
                 % (name, right, *WAITS[name], other, rooted))


def seen(*files):
    """These were seen to wait where they do; a tracer makes them wait elsewhere, too."""
    for path in files:
        name = os.path.basename(path).split(".")[0]
        if stacks_of(name, path)[0] == 0:
            fail("%s: not seen in %s and %s" % (name, *WAITS[name]))


def stacks_of(name, folded):
    """The time in the wait of that name, elsewhere, and in stacks that have a root."""
    function, leaf = WAITS[name]
    right = other = rooted = 0
    with open(folded, encoding="utf-8") as file:
        for line in file:
            stack, text = line.rsplit(" ", 1)
            frames, ns = stack.split(";"), int(text)
            # Of a busy machine, as much as there may be.
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
            # Who holds the lock is below it.
            sums_[frames[-2 if frames[-1].startswith("held by ") else -1]] += int(ns)
    whole = sum(sums_.values())
    print("%-24s %5.1f %% of the time" % (leaf, 100 * sums_[leaf] / whole if whole else 0))
    if whole == 0 or sums_[leaf] < float(least) * whole:
        fail("%s has %d of %d ns of %s: %s" % (leaf, sums_[leaf], whole, folded, dict(sums_)))


def links(path):
    """How many of the spans that only wait have a link to their profile, and how many there are."""
    with open(path, encoding="utf-8") as file:
        linked = ["pyroscope.profile.id" in span["attributes"] for span in map(json.loads, file)
                  if span["name"] in WAITS and span["name"] != "mixed"]
    print(sum(linked), len(linked))


def types(path, cpu):
    """The link of each span names the type of profile that has something of it: CPU where it has samples."""
    with open(cpu, encoding="utf-8") as file:
        sampled = {s["span_id"] for s in json.load(file)["spans"] if s["samples"] > 0}
    seen = collections.Counter()
    with open(path, encoding="utf-8") as file:
        for span in map(json.loads, file):
            url = span["attributes"].get("pyroscope.profile.url")
            if url is None:
                continue
            wanted = "process_cpu" if span["attributes"]["pyroscope.profile.id"] in sampled else "off_cpu"
            seen[wanted] += 1
            if not url.startswith("http://grafana/%s%%3A" % wanted):
                fail("%s: %s, not of type %s" % (span["name"], url, wanted))
    print("links by type:", dict(seen))
    if not seen["off_cpu"]:
        fail("no link leads to a profile of waits")


def main():
    command, *words = sys.argv[1:]
    {"sums": sums, "stacks": stacks, "seen": seen, "share": share, "links": links, "types": types}[command](*words)


main()
