# SPDX-License-Identifier: Apache-2.0
"""Compares the real holders of the locks of test/hosts/locks with the profiles. Usage: lock_owners.py FOLDER SPANS
OUTPUT NAME..."""
import collections
import glob
import gzip
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "common"))
from pb import fields, packed

# Locks whose holder is unknown, and the lock whose writers also wait for readers.
SILENT = {"semaphore", "join", "future", "once", "imposter", "imposter_inline", "rust", "go"}
PARTLY = {"readers", "condition"}
LOCK = "futex (lock)"


def waits(path):
    """The samples of a profile: (labels, frames from the leaf on, nanoseconds)."""
    with gzip.open(path) as file:
        data = list(fields(file.read()))
    texts = [value.decode() for number, value in data if number == 6]
    functions, locations = {}, {}
    for number, value in data:
        if number in (4, 5):
            message = list(fields(value))
            first = dict(reversed(message))
            if number == 5:
                functions[first[1]] = texts[first.get(2, 0)]
            else:
                locations[first[1]] = [dict(fields(line)).get(1, 0) for key, line in message if key == 4]
    for number, value in data:
        if number != 2:
            continue
        message = list(fields(value))
        labels = {}
        for key, label in message:
            if key == 3:
                pair = dict(fields(label))
                labels[texts[pair[1]]] = texts[pair.get(2, 0)]
        frames = [functions[f] for key, ids in message if key == 1 for i in packed(ids) for f in locations[i]]
        yield labels, frames, [n for key, values in message if key == 2 for n in packed(values)][1]


def fail(text):
    sys.exit("FAIL: " + text)


def spans_of(path):
    with open(path, encoding="utf-8") as file:
        return {s["span_id"]: s for s in map(json.loads, file)}


def judge(spans, labels, frames):
    """Whether the sample names an owner; a wrong owner ends the test."""
    name, by = labels["span_name"], labels.get("blocked_by_span_id")
    if by is None:
        if frames[0].startswith("held by "):
            fail("%s: an owner without a span" % frames[:2])
        return False
    waiter, owner = spans[labels["span_id"]], spans.get(by)
    if owner is None or name in SILENT or owner is waiter or owner["name"] != name:
        fail("%s: held by %s, %s" % (waiter, by, owner))
    w, o = waiter["attributes"], owner["attributes"]
    if int(o["first"]) == 0 or int(o["first"]) > int(w["to"]) or int(o["last"]) < int(w["from"]):
        fail("%s was never held up by %s" % (waiter, owner))
    if frames[1] != LOCK:
        fail("an owner of what is no lock: %s" % frames)
    function = frames[0][len("held by %s" % name):]
    # A thread that signals a condition may have to wait for threads that it woke before.
    if function not in ("", " in hold_asleep") and not (name == "condition" and function.endswith("::with_condition")):
        fail("%s: %s" % (name, frames[:3]))
    return True


def shares(spans, path):
    """The part of the time for which each lock was held."""
    held = collections.Counter()
    for span in spans.values():
        held[span["name"]] += int(span["attributes"].get("held", 0))
    with open(path, encoding="utf-8") as file:
        return {w[1]: held[w[1]] / int(w[2]) for w in map(str.split, file) if w[0] == "wall"}


def main(folder, spans, output, *names):
    spans = spans_of(spans)
    held = shares(spans, output)
    known, unknown, functions = collections.Counter(), collections.Counter(), collections.Counter()
    for path in glob.glob(folder + "/*off_cpu*.pb.gz"):
        for labels, frames, ns in waits(path):
            if LOCK not in frames[:2]:
                continue
            name = labels.get("span_name", "")
            is_named = judge(spans, labels, frames)
            (known if is_named else unknown)[name] += ns
            functions[name] += ns if is_named and frames[0].endswith(" in hold_asleep") else 0
    told = there = 0
    for name in names:
        whole = known[name] + unknown[name]
        print("%-16s %8.2f s of waiting, %5.1f %% with an owner, %5.1f %% with its function; it was held %5.1f %%"
              % (name, whole / 1e9, *(100 * n / whole if whole else 0 for n in (known[name], functions[name])),
                 100 * held[name]))
        if whole == 0:
            fail("%s: no wait at all" % name)
        # There are some hundred looks at a lock, and looks at the same moment find the same owner.
        if name not in SILENT | PARTLY:
            told, there = told + known[name], there + held[name] * whole
            if known[name] < 0.5 * held[name] * whole:
                fail("%s: %d of %d ns have an owner" % (name, known[name], whole))
    print("%.1f %% of the time that locks were held" % (100 * told / there))
    if told < 0.9 * there:
        fail("%d of %d ns have an owner" % (told, there))
    # An owner that runs, or could run, has no stack.
    if sum(functions.values()) < 0.1 * sum(known.values()):
        fail("owners that sleep are not seen to")
    print("%d sections" % sum(1 for s in spans.values() if int(s["attributes"].get("last", 0))))


main(*sys.argv[1:])
