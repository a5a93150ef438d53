# SPDX-License-Identifier: Apache-2.0
"""reference.py RECORDING RATE_HZ PROFILE...: adds up the records of each interval by itself, and compares the sums with
the interval's profile: addresses, labels, samples, nanoseconds. Prints how many intervals, samples, and stacks
with labels there were. Snapshots, which have no addresses before they are walked, are compared by labels alone."""
import collections
import gzip
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "common"))
from pb import fields, packed  # noqa: E402 pylint: disable=wrong-import-position

SAMPLE, CPU_TIME, SNAPSHOT, NAME, INTERVAL = 2, 3, 8, 35, 36
ROOTED, TRUNCATED = 1, 2
HEAD = struct.Struct("<Q16sQIIIHH16sQQ")
TIME = struct.Struct("<Q16sQII16sQQ")
WALKED = ("a snapshot",)


def labels(span, trace, name, thread):
    """As a profile has them with SPANPROF_THREAD_NAME."""
    texts = {"span_id": struct.pack("<Q", span).hex() if span else "", "trace_id": trace.hex() if any(trace) else "",
             "span_name": name, "thread_name": thread.split(b"\0")[0].decode("utf-8", "replace") or "(unknown)"}
    return tuple(sorted((k, v) for k, v in texts.items() if v))


def recorded(path, period_ns):
    """For each interval: sums (samples, ns) by addresses, leaf first, and labels."""
    intervals, names = [collections.defaultdict(lambda: [0, 0])], {0: ""}
    with open(path, "rb") as f:
        data = f.read()
    at = 0
    while at < len(data):
        kind, n = struct.unpack_from("<II", data, at)
        body = data[at + 8:at + 8 + n]
        at += 8 + (n + 7) // 8 * 8
        if kind == NAME:
            names[struct.unpack_from("<I", body)[0]] = body[4:-1].decode()
        elif kind == INTERVAL:
            intervals.append(collections.defaultdict(lambda: [0, 0]))
        elif kind in (SAMPLE, SNAPSHOT):
            span, trace, _, name, _, weight, depth, flags, thread, _, _ = HEAD.unpack_from(body)
            stack = WALKED
            if kind == SAMPLE:
                stack = struct.unpack_from("<%dQ" % depth, body, HEAD.size) or ("[unknown]",)
                if flags & TRUNCATED:
                    stack += ("[truncated]",)
                elif depth and not flags & ROOTED:
                    stack += ("[incomplete]",)
            into = intervals[-1][stack, labels(span, trace, names[name], thread)]
            into[0] += 1
            into[1] += weight * period_ns
        elif kind == CPU_TIME:
            span, trace, _, name, _, thread, start, ns = TIME.unpack(body)
            stack = ("[unsampled cpu]",) + ((start,) if start else ())
            intervals[-1][stack, labels(span, trace, names[name], thread)][1] += ns
    return [i for i in intervals if i]


def profiled(path):
    """The same sums as the profile has them, and how many of its locations have a function."""
    with gzip.open(path) as f:
        message = list(fields(f.read()))
    text = [value.decode() for number, value in message if number == 6]
    function = {}
    for number, value in message:
        if number == 5:
            parts = dict(fields(value))
            function[parts[1]] = text[parts.get(2, 0)]
    place = {}
    for number, value in message:
        if number == 4:
            parts = list(fields(value))
            lines = [dict(fields(v)) for n, v in parts if n == 4]
            known = dict((n, v) for n, v in parts if n != 4)
            place[known[1]] = known.get(3) or function[lines[0][1]]
    sums = collections.defaultdict(lambda: [0, 0])
    for number, value in message:
        if number != 2:
            continue
        ids, values, pairs = [], [], []
        for n, v in fields(value):
            if n == 1:
                ids += packed(v)
            elif n == 2:
                values += packed(v)
            else:
                label = dict(fields(v))
                pairs.append((text[label[1]], text[label.get(2, 0)]))
        wanted = ("span_id", "trace_id", "span_name", "thread_name")
        into = sums[tuple(place[i] for i in ids), tuple(sorted(p for p in pairs if p[0] in wanted))]
        into[0] += values[0]
        into[1] += values[1]
    return sums


def without_walks(sums, walks):
    """What is left of the sums when the stacks that nobody recorded are taken as what was walked."""
    left = collections.defaultdict(lambda: [0, 0])
    for (stack, label), value in sums.items():
        if (stack, label) not in walks and any(s == WALKED and k == label for s, k in walks):
            stack = WALKED
        into = left[stack, label]
        into[0] += value[0]
        into[1] += value[1]
    return left


def main(recording, rate, *profiles):
    """Exit status 1: they differ."""
    expected = recorded(recording, 1000000000 // int(rate))
    if len(expected) != len(profiles):
        sys.exit("%d intervals, %d profiles" % (len(expected), len(profiles)))
    samples = stacks = 0
    for path, sums in zip(profiles, expected):
        got = without_walks(profiled(path), sums)
        for key in sorted(set(sums) | set(got), key=repr):
            if sums.get(key) != got.get(key):
                sys.exit("%s: %s\nrecorded %s, profile %s" % (path, key, sums.get(key), got.get(key)))
        samples += sum(n for n, _ in sums.values())
        stacks += len(sums)
    print(len(expected), samples, stacks)


main(*sys.argv[1:])
