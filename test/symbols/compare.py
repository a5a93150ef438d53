#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares lookup's answers about random addresses with binutils' and prints every kind of difference.

compare.py lines FILE COUNT [--debug FILE] [LOOKUP OPTION]...: addr2line -fi, with lines and inlines
compare.py names FILE COUNT [LOOKUP OPTION]...: nm, names alone
compare.py fdes FILE COUNT: each function of the call frame information has one name
Fails on a difference that has no known reason.
"""
import bisect
import collections
import os
import random
import re
import subprocess
import sys

LOOKUP = "build/test/symbols/lookup"
# Suffixes of compilers for the symbol of a part or a copy of a function.
CLONE = re.compile(r"(\.(isra|part|constprop|cold|lto_priv|llvm|localalias|clone|str)(\.\d+)*)+$")


def run(*command, stdin=None):
    done = subprocess.run(command, input=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, errors="replace", check=False)
    if done.returncode != 0:
        sys.exit(f"compare: {' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def sections(path):
    """(name, start, size) of the sections with code."""
    found = []
    for line in run("readelf", "-SW", path).splitlines():
        m = re.match(r"\s*\[ *\d+\] (\S+) +PROGBITS +([0-9a-f]+) [0-9a-f]+ ([0-9a-f]+) \S+ +(\w+)", line)
        if m and "X" in m[4]:
            found.append((m[1], int(m[2], 16), int(m[3], 16)))
    return found


def text_addresses(path, count):
    """Random, but the same in every run."""
    _, start, size = next(s for s in sections(path) if s[0] == ".text")
    chooser = random.Random(20)
    return [start + chooser.randrange(size) for _ in range(count)]


def as_input(addresses):
    return "".join(f"{a:x}\n" for a in addresses)


def lookup(path, addresses, options):
    """Per address: [(system name, file, line, name)], innermost first."""
    answers = []
    for line in run(LOOKUP, *options, path, stdin=as_input(addresses)).splitlines():
        if re.fullmatch(r"0x[0-9a-f]{16}", line):
            answers.append([])
        else:
            name, file, number, readable = line.split("\t")
            answers[-1].append((name, file, int(number), readable))
    return answers


def addr2line(path, addresses):
    answers = []
    lines = run("addr2line", "-fia", "-e", path, stdin=as_input(addresses)).splitlines()
    i = 0
    while i < len(lines):
        if re.fullmatch(r"0x[0-9a-f]{16}", lines[i]):
            answers.append([])
            i += 1
            continue
        name, place = lines[i], lines[i + 1]
        i += 2
        m = re.match(r"(.*):(\d+|\?)(?: \(discriminator \d+\))?$", place)
        answers[-1].append((name, "" if m[1] == "??" else m[1], 0 if m[2] == "?" else int(m[2])))
    return answers


class Symbols:
    """nm's knowledge: every name of each address, and which symbols cover an address."""

    def __init__(self, *files):
        self.names = collections.defaultdict(set)
        sized = set()
        for path, flag in files:
            # Assembly has tables between its functions; no code runs there.
            data = {m[1] for m in re.finditer(r"^ *\d+: ([0-9a-f]+) +\S+ OBJECT ",
                                              run("readelf", "-sW", path), re.M)}
            done = subprocess.run(["nm", *flag, "-S", "--defined-only", path], text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
            for line in done.stdout.splitlines():
                m = re.match(r"([0-9a-f]+) (?:([0-9a-f]+) )?([tTwWiu]) (\S+)", line)
                if not m or m[1] in data:
                    continue
                start = int(m[1], 16)
                self.names[start].add(m[4].split("@")[0])
                if m[2]:
                    sized.add((start, int(m[2], 16)))
        self.sized = sorted(sized)
        self.starts = [s for s, _ in self.sized]

    def covering(self, address):
        """Names of the functions around the address, and whether there is a function."""
        names = set()
        at = bisect.bisect_right(self.starts, address)
        for start, size in self.sized[max(0, at - 64):at]:
            if start <= address < start + size:
                names |= self.names[start]
        return names

    def twins(self, name):
        return {n for names in self.names.values() if name in names for n in names}


class Report:
    def __init__(self, what, known):
        self.what = what
        self.known = known
        self.count = collections.Counter()
        self.example = {}

    def add(self, kind, example):
        self.count[kind] += 1
        self.example.setdefault(kind, example)

    def finish(self, total):
        bad = sum(n for kind, n in self.count.items() if kind not in self.known)
        print(f"{self.what}: {total} addresses, {sum(self.count.values())} differ, {bad} of them unexplained")
        for kind, n in self.count.most_common():
            print(f"    {n:6} {kind}: {self.known.get(kind, 'NO REASON KNOWN')}")
            print(f"           e.g. {self.example[kind][:400]}")
        return bad == 0


KNOWN_LINES = {
    "clone": "we keep the symbol of a part that the compiler split off; addr2line prints the whole",
    "alias": "another symbol of the same function",
    "file symbol": "without debug information addr2line takes the file from the symbol table",
    "enclosing": "addr2line gives an inlined C++ function without linkage name the name of the "
                 "function around it",
    "scopes": "addr2line prints the last part of the name of a function without linkage name",
    "symbol": "no debug information for the function, the symbol covers the address",
    "row": "of several rows of the line table at the address we choose the one that gdb chooses",
    "no symbol": "nothing covers the address; we fall back to frame information, addr2line to the "
                 "symbol before it",
}


def last_part(name):
    """A function's name without its arguments and its scopes."""
    operator = re.search(r"operator(\W+?)(?=<[^<>=-]|$)", name)
    if operator:
        return operator[0].strip()
    while "<" in name and re.search(r"<[^<>]*>", name):
        name = re.sub(r"<[^<>]*>", "", name.replace("->", ""))
    return name.split("::")[-1]


def same_function(ours, theirs, symbols, address):
    if ours == theirs:
        return "same"
    if CLONE.sub("", ours) == CLONE.sub("", theirs):
        return "clone"
    covering = symbols.covering(address)
    if ours in covering:
        return "alias" if theirs in covering else "symbol"
    if not covering and ("+0x" in ours or ours == theirs):
        return "no symbol"
    return "function"


class Rows:
    """The files and lines in the rows of the line table at an address."""

    def __init__(self, path):
        self.at = collections.defaultdict(set)
        for line in run("objdump", "--dwarf=decodedline", "-w", path).splitlines():
            m = re.match(r"(\S+) +(\d+) +(0x[0-9a-f]+)", line)
            if m:
                self.at[int(m[3], 16)].add((os.path.basename(m[1]), int(m[2])))
        self.starts = sorted(self.at)

    def may_be(self, address, file, line):
        """Whether it is the line of one of the last rows before the address."""
        end = bisect.bisect_right(self.starts, address)
        return any((os.path.basename(file), line) in self.at[a] for a in self.starts[max(0, end - 8):end])


def compare_one(ours, theirs, symbols, rows, address):
    """Kind of the first difference, or None."""
    if len(ours) != len(theirs):
        return "depth"
    kinds = []
    for i, (mine, other) in enumerate(zip(ours, theirs)):
        last = i == len(theirs) - 1
        if last or mine[0] == other[0]:
            kind = same_function(mine[0], other[0], symbols, address)
        elif last_part(mine[0]) == last_part(other[0]):
            kind = "scopes"
        else:
            kind = "enclosing" if i == 0 and other[0] in symbols.covering(address) \
                else "inlined function"
        kinds.append(kind)
        if i == 0 and mine[1:3] != other[1:3] and rows.may_be(address, mine[1], mine[2]):
            kinds.append("row")
            continue
        if mine[1] != other[1]:
            return "file symbol" if not mine[1] and not other[2] and "/" not in other[1] else "file"
        if mine[2] != other[2]:
            return "line"
    return next((k for k in kinds if k != "same"), None)


def lines(path, count, options):
    debug = path
    if options and options[0] == "--debug":
        debug = options[1]
        options = options[2:]
    addresses = text_addresses(path, count)
    symbols = Symbols((debug, []), (path, ["-D"]))
    rows = Rows(debug)
    report = Report(f"lines {path}", KNOWN_LINES)
    with_lines = inlined = 0
    for a, mine, other in zip(addresses, lookup(path, addresses, options),
                              addr2line(debug, addresses), strict=True):
        kind = compare_one(mine, other, symbols, rows, a)
        with_lines += mine[0][2] != 0
        inlined += len(mine) > 1
        if kind:
            report.add(kind, f"{a:#x} ours {[m[:3] for m in mine]} addr2line {other}")
    print(f"    {with_lines} with a line, {inlined} in inlined functions")
    return report.finish(count) and with_lines > count / 2 and inlined > 0


KNOWN_NAMES = {
    "between": "no symbol covers the address, we say which function it is by its start",
}


def names(path, count, options):
    addresses = text_addresses(path, count)
    symbols = Symbols((path, []), (path, ["-D"]))
    report = Report(f"names {path}", KNOWN_NAMES)
    named = 0
    for a, mine in zip(addresses, lookup(path, addresses, ["--names", *options]), strict=True):
        covering = symbols.covering(a)
        if mine[0][0] in covering:
            named += 1
        elif not covering:
            report.add("between", f"{a:#x} {mine[0][0]}")
        else:
            report.add("name", f"{a:#x} ours {mine[0][0]} nm {sorted(covering)[:4]}")
    print(f"    {named} named by a symbol")
    return report.finish(count) and named > 0


def fdes(path, count):
    """Each range of the call frame information has one name, and distinct ranges distinct ones."""
    stubs = [(start, start + size) for name, start, size in sections(path) if name.startswith(".plt")]
    ranges = []
    for line in run("readelf", "--debug-dump=frames", path).splitlines():
        m = re.search(r" FDE .*pc=([0-9a-f]+)\.\.([0-9a-f]+)", line)
        if m:
            low, high = int(m[1], 16), int(m[2], 16)
            if high > low and not any(s <= low < e for s, e in stubs):
                ranges.append((low, high))
    chooser = random.Random(20)
    asked = []
    for low, high in chooser.sample(ranges, min(count, len(ranges))):
        asked += [low, chooser.randrange(low, high), chooser.randrange(low, high), high - 1]
    answers = [a[0][0] for a in lookup(path, asked, ["--names"])]
    symbols = Symbols((path, ["-D"]))
    starts = sorted(a for a in symbols.names)
    report = Report(f"functions {path}", {
        "labels": "several symbols begin inside the function, each names its own part"})
    owner = {}
    for i in range(0, len(asked), 4):
        got = set(answers[i:i + 4])
        at = bisect.bisect_right(starts, asked[i])
        inside = at < len(starts) and starts[at] <= asked[i + 3]
        if len(got) != 1:
            report.add("labels" if inside else "names", f"{asked[i]:#x} {sorted(got)}")
        elif owner.setdefault(answers[i], asked[i]) != asked[i] and "+0x" in answers[i]:
            report.add("shared", f"{asked[i]:#x} and {owner[answers[i]]:#x}: {answers[i]}")
    by_start = sum("+0x" in a for a in answers[::4])
    print(f"    {by_start} of {len(asked) // 4} functions named by their start")
    return report.finish(len(asked)) and bool(asked)


def main():
    what, path, *rest = sys.argv[1:]
    count, options = int(rest[0]), rest[1:]
    good = {"lines": lambda: lines(path, count, options),
            "names": lambda: names(path, count, options),
            "fdes": lambda: fdes(path, count)}[what]()
    sys.exit(0 if good else 1)


main()
