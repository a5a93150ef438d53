# SPDX-License-Identifier: Apache-2.0
"""reference.py RECORDING RATE_HZ ALLOC_INTERVAL PROFILE...: independently adds up the records of each interval, and
compares the sums with the interval's profiles: addresses, labels, both values. Prints the first values' sums of CPU
time, waits, allocations, and blocks in use. Snapshots, which have no addresses before they are walked, are compared
only by labels."""
import collections
import gzip
import math
import os
import re
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "common"))
from pb import fields, packed  # noqa: E402 pylint: disable=wrong-import-position

SAMPLE, CPU_TIME, FREED, SPAN_ENDED, SNAPSHOT, NAME, INTERVAL, WAIT = 2, 3, 6, 7, 9, 35, 36, 37
ROOTED, TRUNCATED = 1, 2
HEAD = struct.Struct("<Q16sQIIIHH16sQQQ")
TIME = struct.Struct("<Q16sQII16sQQ")
LABEL = struct.Struct("<Q16sQII")
LOOK = struct.Struct("<QIHHH?160s5x")
KINDS = ("", "off_cpu", "memory", "inuse")
WALKED = ("a snapshot",)


def labels(span, trace, name, thread, blocked_by=0):
    """The labels of a profile with SPANPROF_THREAD_NAME."""
    texts = {"span_id": struct.pack("<Q", span).hex() if span else "", "trace_id": trace.hex() if any(trace) else "",
             "span_name": name, "thread_name": thread.split(b"\0")[0].decode("utf-8", "replace") or "(unknown)",
             "blocked_by_span_id": struct.pack("<Q", blocked_by).hex() if blocked_by else ""}
    return tuple(sorted((k, v) for k, v in texts.items() if v))


def marked(stack, flags):
    """The stack with the marker that tells how it ends."""
    if flags & TRUNCATED:
        return stack + ("[truncated]",)
    return stack if flags & ROOTED else stack + ("[incomplete]",)


def look(body, names):
    """The stack, the labels and the time of a wait."""
    span, trace, _, name, _ = LABEL.unpack_from(body)
    holder, _, _, held, _ = LABEL.unpack_from(body, LABEL.size)
    ns, _, depth, flags, _, is_held, leaf = LOOK.unpack_from(body, 2 * LABEL.size)
    stack = struct.unpack_from("<%dQ" % depth, body, 2 * LABEL.size + LOOK.size)
    stack = marked(stack, flags) if depth else stack
    stack = (leaf.split(b"\0")[0].decode(),) + stack
    if is_held:
        stack = ("held by " + (names[held] or "a span"),) + stack
    return stack, labels(span, trace, names[name], b"", holder), ns


def end_interval(sums, blocks, ended, is_changed):
    """Ends an upload interval, and adds all blocks in use to its sums. An interval without changes and without sums
    has no profile."""
    if not is_changed and not any(sums.values()):
        return
    for number, (span, trace, name, thread, stack, value) in blocks.items():
        if span in ended:
            span, trace = 0, b""
            blocks[number] = (span, trace, name, thread, stack, value)
        into = sums["inuse"][stack, labels(span, trace, name, thread)]
        into[0] += value[0]
        into[1] += value[1]


def recorded(path, period_ns, mean):
    """For each interval and kind: sums of both values by addresses, leaf first, and labels."""
    def interval():
        return {kind: collections.defaultdict(lambda: [0, 0]) for kind in KINDS}

    intervals, names, blocks, ended = [interval()], {0: ""}, {}, set()
    is_changed = False
    with open(path, "rb") as f:
        data = f.read()
    at = 0
    while at < len(data):
        kind, n = struct.unpack_from("<II", data, at)
        body = data[at + 8:at + 8 + n]
        at += 8 + (n + 7) // 8 * 8
        now = intervals[-1]
        if kind == NAME:
            names[struct.unpack_from("<I", body)[0]] = body[4:-1].decode()
        elif kind == INTERVAL:
            end_interval(now, blocks, ended, is_changed)
            ended.clear()
            is_changed = False
            intervals.append(interval())
        elif kind in (SAMPLE, SNAPSHOT):
            span, trace, _, name, _, weight, depth, flags, thread, allocated, block, _ = HEAD.unpack_from(body)
            stack = WALKED
            if kind == SAMPLE:
                stack = struct.unpack_from("<%dQ" % depth, body, HEAD.size)
                stack = marked(stack, flags) if depth else ("[unknown]",)
            value = (1, weight * period_ns)
            if allocated:
                stand_for = -1 / math.expm1(-allocated / mean)
                value = (int(stand_for * 65536 + 0.5), int(stand_for * allocated + 0.5))
            if block:
                blocks[block] = (span, trace, names[name], thread, stack, value)
            into = now["memory" if allocated else ""][stack, labels(span, trace, names[name], thread)]
            into[0] += value[0]
            into[1] += value[1]
        elif kind == CPU_TIME:
            span, trace, _, name, _, thread, start, ns = TIME.unpack(body)
            stack = ("[unsampled cpu]",) + ((start,) if start else ())
            now[""][stack, labels(span, trace, names[name], thread)][1] += ns
        elif kind == WAIT:
            stack, label, ns = look(body, names)
            now["off_cpu"][stack, label][0] += 1
            now["off_cpu"][stack, label][1] += ns
        elif kind == FREED:
            is_changed |= blocks.pop(struct.unpack("<Q", body)[0], None) is not None
        elif kind == SPAN_ENDED and blocks:
            is_changed = True
            ended.update(struct.unpack("<Q", body))
    end_interval(intervals[-1], blocks, ended, is_changed)
    for sums in intervals:
        for kind in ("memory", "inuse"):
            for value in sums[kind].values():
                value[0] //= 65536
    return {kind: [i[kind] for i in intervals if i[kind]] for kind in KINDS}


def profiled(path):
    """The same sums from the profile, and the number of its locations with a function."""
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
            place[known[1]] = known.get(3) or re.sub("^(held by .*) in .*", r"\1", function[lines[0][1]])
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
        wanted = ("span_id", "trace_id", "span_name", "thread_name", "blocked_by_span_id")
        into = sums[tuple(place[i] for i in ids), tuple(sorted(p for p in pairs if p[0] in wanted))]
        into[0] += values[0]
        into[1] += values[1]
    return sums


def without_walks(sums, walks):
    """The differences of the sums if stacks without a record count as walked snapshots."""
    left = collections.defaultdict(lambda: [0, 0])
    for (stack, label), value in sums.items():
        if (stack, label) not in walks and any(s == WALKED and k == label for s, k in walks):
            stack = WALKED
        into = left[stack, label]
        into[0] += value[0]
        into[1] += value[1]
    return left


def main(recording, rate, mean, *profiles):
    """Exit status 1: they differ."""
    expected = recorded(recording, 1000000000 // int(rate), int(mean))
    counts = []
    for kind, intervals in expected.items():
        of_kind = (p for p in profiles
                   if re.search(r"-[0-9]{6}(?:-([a-z_]+))?\.", p).expand(r"\1") == kind)
        # If nothing is in use, there is a profile without samples.
        shown = [(p, sums) for p, sums in ((p, profiled(p)) for p in of_kind) if sums]
        if len(intervals) != len(shown):
            sys.exit("%s: %d intervals, %d profiles" % (kind, len(intervals), len(shown)))
        for (path, got), sums in zip(shown, intervals):
            got = without_walks(got, sums)
            for key in sorted(set(sums) | set(got), key=repr):
                if sums.get(key) != got.get(key):
                    sys.exit("%s: %s\nrecorded %s, profile %s" % (path, key, sums.get(key), got.get(key)))
        counts.append(sum(n for sums in intervals for n, _ in sums.values()))
    print(*counts)


main(*sys.argv[1:])
