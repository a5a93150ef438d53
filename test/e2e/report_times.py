#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Profiles of many times, for spanprof-report.

usage: report_times.py make OURS FOREIGN   the same profiles under the names of the exporter, and under others
       report_times.py windows REPORT OURS FOREIGN
       report_times.py crowd FOLDER FILES  files of the last days by their names, without profiles
       report_times.py now FOLDER NUMBER   a profile of the last seconds
       report_times.py before FOLDER NUMBER  one of some minutes ago
       report_times.py blocks FOLDER FILES  of memory in use: two processes, so many files of each, of which the last is good
       report_times.py in_use REPORT FOLDER
       report_times.py news PORT FOLDER CALLS

"windows" shows the same profiles of both folders for many windows: what is chosen by names must be what is chosen by
what the files say. "in_use" compares memory in use with a model, with files that are damaged. "news" has --serve look at new files: CALLS is what strace says of the server.
"""
import json
import os
import random
import re
import subprocess
import sys
import time
import urllib.request

from pprof_writer import Profile

LAST_S = 3 * 3600


class Timed(Profile):
    def __init__(self, begin_s, seconds, samples):
        super().__init__("cpu", begin_s, seconds)
        self.sample(["main@/srv/shopd", "pay@/srv/shopd"], samples, samples * 10 ** 7, span_id=f"{samples:016x}",
                    span_name="POST /cart")

    def write(self, path, written_s=None):
        super().write(path)
        end = self.time_s + self.seconds if written_s is None else written_s
        os.utime(path, (end, end))


def name(begin_s, number, service="shop-2", random_id="0a1b2c3d"):
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(begin_s))
    return f"spanprof-{service}-4711-{stamp}-{random_id}-{number:06d}.pb.gz"


def make(ours, foreign):
    rnd = random.Random(7)
    now = int(time.time())
    for n in range(1, 241):
        begin = now - rnd.randrange(LAST_S)
        p = Timed(begin, rnd.choice((10, 11, 40, 600)), n)
        service = rnd.choice(("shop", "a-1-20260101T000000Z-x", "20260101T000000Z-1"))
        if n % 9 == 0:
            # Copied by a tool that sets times.
            p.write(f"{ours}/{name(begin, n, service)}", rnd.choice((0, begin - 5, now)))
        else:
            p.write(f"{ours}/{name(begin, n, service)}")
        p.write(f"{foreign}/{n:03d}.pb.gz")
    # Names that only look like the exporter's.
    for n, odd in enumerate(("spanprof-shop-1-20200101T000000Z.pb.gz", "spanprof-shop-20200101T000000Z-0a1b2c3d-000001.pb.gz",
                             "shop-1-20200101T000000Z-0a1b2c3d-000001.pb.gz",
                             "spanprof-shop-1-20200101T000000Z-0a1b-000001.pb.gz")):
        p = Timed(now - 100 * (n + 1), 10, 1000 + n)
        p.write(f"{ours}/{odd}", now - LAST_S)
        p.write(f"{foreign}/odd{n}.pb.gz")


def windows(report, ours, foreign):
    rnd = random.Random(8)
    now = time.time()
    found = 0

    def show(folder, options):
        done = subprocess.run([report, "--json", *options, folder], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if done.returncode == 0:
            return json.loads(done.stdout)
        return done.returncode, done.stderr.replace(folder, "")

    def stamp(ago):
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now - ago))

    for _ in range(60):
        a, b = sorted((rnd.randrange(-60, LAST_S), rnd.randrange(-60, LAST_S)))
        options = rnd.choice((["--from", stamp(b), "--to", stamp(a)], ["--from", stamp(b)], ["--to", stamp(a)],
                              ["--from", stamp(a + 30), "--to", stamp(a)],
                              ["--from", stamp(a), "--baseline-from", stamp(b), "--baseline-to", stamp(a)]))
        got, wanted = show(ours, options), show(foreign, options)
        if got != wanted:
            sys.exit(f"FAIL: {options}: {str(got)[:600]}, not {str(wanted)[:600]}")
        found += isinstance(got, dict) and got["profiles"] > 0
    if found < 20:
        sys.exit(f"FAIL: only {found} windows had a profile")


def crowd(folder, files):
    now = int(time.time())
    for n in range(files):
        begin = now - 600 - 10 * n
        path = f"{folder}/{name(begin, n)}"
        with open(path, "wb") as f:
            f.write(DAMAGED)
        os.utime(path, (begin + 10, begin + 10))


class InUse(Profile):
    def __init__(self, begin_s, seconds, blocks):
        super().__init__("inuse_space", begin_s, seconds, "bytes")
        self.sample(["main@/srv/shopd", "pay@/srv/shopd"], blocks, blocks << 20, span_name="POST /cart")


def in_use_name(begin_s, number, random_id):
    return name(begin_s, number, random_id=random_id).replace(".pb.gz", "-inuse.pb.gz")


DAMAGED = b"this is no profile, and whoever opens it says so"


def blocks(folder, files):
    now = int(time.time())
    for n in range(files):
        for process in (1, 2):
            begin = now - 10 * (files - n)
            path = f"{folder}/{in_use_name(begin, n, f'0000000{process}')}"
            if n == files - 1:
                InUse(begin, 10, process).write(path)
            else:
                with open(path, "wb") as f:
                    f.write(DAMAGED)


def in_use(report, folder):
    """As the manual says it: each process's last profile in the window, of processes that live at its end. A process whose
    last profile is of 10 s has ended when the newest one of all ended 10 s after it."""
    rnd = random.Random(9)
    now = int(time.time())
    known = []
    for process in range(12):
        begin = now - rnd.randrange(LAST_S)
        ends = rnd.choice((now, now, rnd.randrange(begin, now)))
        number = 0
        while begin < ends and number < 60:
            number += 1
            seconds = rnd.choice((10, 10, 11, 60))
            path = f"{folder}/{in_use_name(begin, number, f'0000000{process:x}')}"
            amount = 1 + len(known)
            InUse(begin, seconds, amount).write(path)
            os.utime(path, (begin + seconds, begin + seconds))
            if rnd.random() < 0.2:
                with open(path, "wb") as f:
                    f.write(DAMAGED)
            else:
                known.append((process, begin, seconds, amount))
            begin += seconds
    found = 0
    for _ in range(80):
        a, b = sorted((rnd.randrange(-60, LAST_S), rnd.randrange(-60, LAST_S)))
        since, until = rnd.choice(((0, 1 << 40), (now - b, now - a), (0, now - a), (now - b, 1 << 40)))
        last = {}
        for process, begin, seconds, amount in known:
            if since <= begin + seconds / 2 < until:
                last[process] = (begin, seconds, amount)
        newest = max((begin + seconds for begin, seconds, _ in last.values()), default=0)
        wanted = sum(amount for begin, seconds, amount in last.values() if begin + 2 * seconds >= newest) << 20
        options = [word for option, at in (("--from", since), ("--to", until)) if 0 < at < 1 << 40
                   for word in (option, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at)))]
        done = subprocess.run([report, "--json", "--type", "inuse_space", *options, folder], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True)
        got = json.loads(done.stdout)["total"]["bytes"] if done.stdout else 0
        if got != wanted:
            sys.exit(f"FAIL: {options}: {got >> 20}, not {wanted >> 20}: {done.stderr}")
        found += wanted > 0
    if found < 40:
        sys.exit(f"FAIL: only {found} windows had a profile")


def write_before(folder, number):
    begin = int(time.time()) - 200
    Timed(begin, 10, number).write(f"{folder}/{name(begin, number)}")


def write_now(folder, number):
    begin = int(time.time()) - 20
    Timed(begin, 10, number).write(f"{folder}/.new")
    os.rename(f"{folder}/.new", f"{folder}/{name(begin, number)}")


def news(port, folder, calls):
    def opened():
        with open(calls) as f:
            return len(re.findall(r'openat\(.*\.pb\.gz"', f.read()))

    def samples(query):
        # The two questions of a browser.
        answer = {}
        for page in ("spans", "profile"):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/{page}.json?{query}") as got:
                answer = json.loads(got.read())
        return int(re.search(r" (\d+) samples", answer["profile"]["sums"])[1])

    number = 2000
    with open(f"{folder}/damaged.pb.gz", "wb") as f:
        f.write(b"this is no profile either")
    for query in ("", "last=1h"):
        had = samples(query)
        for what in ("comes", "comes", "comes and the oldest goes"):
            # "The last hour" moves every three minutes, perhaps during one of these attempts.
            least = None
            for _ in range(2):
                number += 1
                write_now(folder, number)
                if "goes" in what:
                    os.remove(min((e.path for e in os.scandir(folder) if "-4711-" in e.name),
                                  key=lambda path: path.split("-4711-")[1]))
                before = opened()
                now = samples(query)
                if query == "" and now < had + number:
                    sys.exit(f"FAIL: {query}: {now} samples, not the {number} more than {had} that came")
                had = now
                least = min(opened() - before, least if least is not None else 10 ** 9)
            # For each of the two pages the server opened the new file and, again, the damaged one.
            if least != 4:
                sys.exit(f"FAIL: {query}: a file {what}, and {least} are opened, not 4")


what, *args = sys.argv[1:]
if what == "make":
    make(*args)
elif what == "windows":
    windows(*args)
elif what == "crowd":
    crowd(args[0], int(args[1]))
elif what == "now":
    write_now(args[0], int(args[1]))
elif what == "before":
    write_before(args[0], int(args[1]))
elif what == "blocks":
    blocks(args[0], int(args[1]))
elif what == "in_use":
    in_use(*args)
else:
    news(*args)
