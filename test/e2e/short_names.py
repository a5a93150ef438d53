#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The names of functions in the table on a terminal equal those of the page.

usage: short_names.py compare REPORT FOLDER    reads names from its standard input, one a line
"""
import fcntl
import json
import os
import pty
import random
import struct
import subprocess
import sys
import termios

from flame_page import NAMES
from pprof_writer import Profile

TAKEN = 43  # columns before the name
PARTS = ["operator", "operator<", "operator()", "operator->", "operator<=>", "operator new", "operator bool", "{lambda(int)#1}",
         "{closure#0}", "::", "::", "::", "<", "<", ">", ">", "(", "(", ")", ")", " ", " const", " &", " &&", " volatile", "->", ">>",
         " as ", "Vec", "a", "B<int>", "f(int)", "std", "[clone .part.0]", " [clone .cold]", "[abi:cxx11]", "~T", "{", "}", "[", "]",
         " (src/a.cc:12)", " (b)", ".", "/", "xoperator<", "operator ", "operator  x", "-", "unsigned long", "\u00e9t\u00e9"]


def hostile(count):
    rand = random.Random(47)
    return ["".join(rand.choices(PARTS, k=rand.randint(1, 14))) for _ in range(count)]


def on_terminal(columns, *command):
    """The output at a terminal with that many columns."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("4H", 50, columns, 0, 0))
    attributes = termios.tcgetattr(its)
    attributes[1] &= ~termios.OPOST
    termios.tcsetattr(its, termios.TCSANOW, attributes)
    process = subprocess.Popen(command, stdout=its, env={**os.environ, "TERM": "dumb"})
    os.close(its)
    out = b""
    try:
        while part := os.read(ours, 65536):
            out += part
    except OSError:  # so a terminal ends
        pass
    os.close(ours)
    if process.wait() != 0:
        sys.exit("FAIL: the report ends with an error")
    return out.decode()


def cut(text, room):
    """Names that are too long are cut in the middle."""
    if len(text) <= room:
        return text
    tail = (room - 3) // 2
    return text[:room - 3 - tail] + "..." + text[len(text) - tail:]


def compare(report, folder):
    names = sorted({name for name in [*sys.stdin.read().split("\n"), *NAMES, *hostile(4000)] if name.strip() and "@" not in name})
    p = Profile("cpu", 1000000000)
    for i, name in enumerate(names):
        p.sample(["main@/srv/x", name + "@/srv/x"], 1, 10 ** 10 - i)
    path, page = os.path.join(folder, "names.pb.gz"), os.path.join(folder, "names.html")
    p.write(path)
    subprocess.run([report, "--flamegraph", page, path], check=True, stdout=subprocess.DEVNULL)
    shortened = 0
    for columns in (80, 120, 400):
        room = columns - TAKEN
        drawn = json.loads(subprocess.run(["node", "test/e2e/short_names.js", page, str(room)], check=True, text=True,
                                          stdout=subprocess.PIPE).stdout)
        table = on_terminal(columns, report, "--top", "1000000", path).split("function\n")[1]
        rows = [line[TAKEN:] for line in table.split("\n") if line][:len(names)]
        for name, row in zip(names, rows, strict=True):
            if row != cut(drawn[name], room):
                sys.exit(f"FAIL: {name!r} in {room} columns: {row!r} in the table, {drawn[name]!r} on the page")
            shortened += drawn[name] != name
    if shortened < 1000:
        sys.exit(f"FAIL: only {shortened} names were shortened")
    # In a file the names are whole.
    table = subprocess.run([report, "--top", "1000000", path], check=True, text=True, stdout=subprocess.PIPE).stdout
    for name in names:
        if f"%  {name}\n" not in table:
            sys.exit(f"FAIL: not whole in a file: {name!r}")


compare(*sys.argv[2:4])
