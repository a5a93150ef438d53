# SPDX-License-Identifier: Apache-2.0
"""Makes calls fail, one point after the other, in the object and in the exporter, and checks the hosts.

usage: run.py BUILD POINTS [SEED]

Each point is a run of the host with one failure, or with failures from one call on. The points are drawn from all
calls of the run without failures: the same seed gives the same points. Prints a table by kind of call, and ends with
1 if a host died, hung or printed something else, or if a process remained.
"""

import collections
import concurrent.futures
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile

# Calls that can fail like this in practice: limits, memory, missing rights, filters of a container.
HOST = {
    "mmap": ["ENOMEM", "EPERM"], "mprotect": ["ENOMEM"], "madvise": ["EINVAL"],
    "openat": ["EMFILE", "EACCES"], "open": ["EMFILE", "EACCES"], "read": ["EIO"],
    "newfstatat": ["EACCES"], "readlinkat": ["EACCES"], "readlink": ["EACCES"], "getdents64": ["ENOENT"],
    "fcntl": ["EINVAL", "EMFILE"], "dup3": ["EMFILE"], "memfd_create": ["EPERM", "ENOSYS", "EMFILE"],
    "ftruncate": ["ENOSPC", "EPERM"], "prlimit64": ["EPERM"], "clone": ["EAGAIN", "EINVAL", "EPERM"],
    "execve": ["EACCES", "ENOMEM", "ENOENT"], "setsid": ["EPERM"], "prctl": ["EINVAL"],
    "close_range": ["ENOSYS"], "futex": ["EINTR", "ENOSYS"], "kill": ["EPERM"], "wait4": ["EINTR", "EPERM"],
    "timer_create": ["EAGAIN", "ENOMEM"], "timer_settime": ["EINVAL"],
    "rt_sigaction": ["EINVAL"], "rt_sigprocmask": ["EPERM"],
}
EXPORTER = {
    "mmap": ["ENOMEM"], "mprotect": ["ENOMEM"], "munmap": ["ENOMEM"],
    "openat": ["EMFILE", "EACCES", "ENOENT"], "read": ["EIO", "EINTR"], "pread64": ["EIO"],
    "write": ["ENOSPC", "EIO"], "newfstatat": ["EACCES"], "fstat": ["EIO"], "readlink": ["EACCES"],
    "getdents64": ["ENOENT"], "fcntl": ["EINVAL"], "prlimit64": ["EPERM"], "clone3": ["EAGAIN", "ENOSYS"],
    "clone": ["EAGAIN"], "pidfd_open": ["EMFILE", "ENOSYS"], "eventfd2": ["EMFILE"], "poll": ["EINTR", "ENOMEM"],
    "futex": ["EINTR"], "rename": ["ENOSPC"], "renameat": ["EACCES"], "fsync": ["EIO"],
    "prctl": ["EINVAL"], "rt_sigaction": ["EINVAL"], "statfs": ["EACCES"], "fstatfs": ["EIO"],
    "getrandom": ["EAGAIN"], "socket": ["EMFILE"], "setresuid": ["EAGAIN"], "lseek": ["EINVAL"],
}
ALL = 1000000
LINE = re.compile(r"^spanprof\[\d+\]: ")
REPORT = re.compile(r"status (-?\d+) calls (\d+) failed (\d+) exporters (\d+) crashed (\d+) left (\d+)")

Point = collections.namedtuple("Point", "where kind error first count")
Outcome = collections.namedtuple("Outcome", "point status out foreign told profiles calls failed crashed left frames")


class Bench:
    def __init__(self, build):
        self.tests = os.path.join(build, "test/inject")
        self.so = os.path.join(build, "libspanprof.so")
        self.exporter = os.path.join(build, "spanprof-exporter")

    def wrapper(self, folder, point):
        path = os.path.join(folder, "spanprof-exporter")
        with open(path, "w", encoding="ascii") as f:
            first = point.first if point.kind == "allocation" else 0
            f.write(f"#!/bin/sh\nFAIL_FIRST={first} FAIL_COUNT={point.count} "
                    f"FAIL_REPORT='{folder}/frames' FAIL_COUNTS='{folder}/counts' "
                    f"LD_PRELOAD='{self.tests}/libmalloc-fails.so' exec '{self.exporter}'\n")
        os.chmod(path, 0o755)

    def run(self, point):
        folder = tempfile.mkdtemp(prefix="point.")
        report = os.path.join(folder, "report")
        profiles = os.path.join(folder, "profiles")
        os.mkdir(profiles)
        so = self.so
        if point.where == "exporter":
            # An object starts the exporter beside it.
            so = shutil.copy(self.so, folder)
            self.wrapper(folder, point)
        variables = ["SPANPROF_SAMPLE_RATE=1000", f"SPANPROF_OUTPUT_DIR={profiles}",
                     "SPANPROF_THREAD_NAME=true", f"SPANPROF_STATUS_FILE={folder}/status",
                     f"LD_PRELOAD={so}"]
        how, frames = point, []
        if point.kind == "allocation":
            # A call that nobody makes: the run only waits for children.
            how = Point("host", "setresuid", "EAGAIN", 0, 0)
        elif point.where == "plain":
            variables = []
            how = Point("host", "setresuid", "EAGAIN", 0, 0)
        # A readable descriptor is no stderr to the object. Opened for appending, because the exporter writes there
        # too.
        with open(f"{folder}/out", "wb") as out, open(f"{folder}/err", "ab") as err:
            done = subprocess.run(
                [f"{self.tests}/inject", how.where, how.kind, how.error, str(how.first),
                 str(how.count), report, "/usr/bin/env", *variables, f"{self.tests}/host"],
                stdin=subprocess.DEVNULL, stdout=out, stderr=err, check=False)
        with open(f"{folder}/out", encoding="utf8") as f:
            text = f.read()
        with open(f"{folder}/err", encoding="utf8", errors="replace") as f:
            lines = f.read().splitlines()
        if done.returncode == 77:
            print("\n".join(lines))
            sys.exit(77)
        with open(report, encoding="ascii") as f:
            status, calls, failed, _, crashed, left = map(int, REPORT.match(f.read()).groups())
        if point.where == "exporter":
            with open(f"{folder}/frames", "a+", encoding="ascii") as f:
                f.seek(0)
                frames = f.read().splitlines()
        if point.kind == "allocation":
            calls, failed = allocated(f"{folder}/counts")
        made = sum(name.endswith(".pb.gz") for name in os.listdir(profiles))
        shutil.rmtree(folder)
        foreign = [line for line in lines if not LINE.match(line)]
        return Outcome(point, status, text, foreign, [l for l in lines if LINE.match(l)], made, calls,
                       failed, crashed, left, frames)


def allocated(path):
    """malloc_fails.c's counts: allocations, and failures."""
    if not os.path.exists(path):
        return 0, 0
    with open(path, "rb") as f:
        return struct.unpack("LL", f.read())


def possible(where, kind, error, first, count):
    """A filter refuses a kind of call from the beginning, and signals do not come for ever."""
    if kind in ("rt_sigprocmask", "rt_sigaction", "kill") and where == "host":
        return first == 1 and count == ALL
    if error == "EINTR" or kind == "poll":
        return count == 1
    return True


def points_of(bench, where, kind, errors, pool):
    none = Point(where, kind, errors[0], 0, 0)
    calls = list(pool.map(bench.run, [none]))[0].calls
    points = [Point(where, kind, error, n, count)
              for error in errors for n in range(1, calls + 1) for count in (1, ALL)
              if possible(where, kind, error, n, count)]
    random.shuffle(points)
    return points


def draw(lists, wanted):
    """In turn from each kind, so that all points of rare kinds are used."""
    lists = [l for l in lists if l]
    drawn = []
    while lists and len(drawn) < wanted:
        random.shuffle(lists)
        for l in lists:
            drawn.append(l.pop())
        lists = [l for l in lists if l]
    return drawn[:wanted]


def allocations(bench, wanted):
    most = bench.run(Point("exporter", "allocation", "ENOMEM", 0, 0)).calls
    if most == 0:
        sys.exit("the exporter's allocations are not seen")
    points = []
    for i in range(wanted):
        # Half of them near the beginning, where everything is created, and half anywhere, mostly among those for
        # symbols.
        first = int(most ** random.random()) if i % 2 else random.randint(1, max(most, 1))
        points.append(Point("exporter", "allocation", "ENOMEM", first, ALL if i % 4 == 3 else 1))
    return points


def judge(outcome, plain):
    """The reason for which the run is a failure, or nothing."""
    why = []
    if outcome.status != plain.status:
        why.append(f"wait status {outcome.status}")
    if outcome.out != plain.out:
        why.append("other output")
    if outcome.foreign:
        why.append("foreign lines on stderr: " + outcome.foreign[0])
    if outcome.left:
        why.append(f"{outcome.left} processes left")
    return why


def table(outcomes, plain):
    rows = {}
    for o in outcomes:
        key = (o.point.where, o.point.kind)
        row = rows.setdefault(key, collections.Counter())
        row["runs"] += 1
        row["hit"] += o.failed > 0
        row["dead"] += o.status != plain.status
        row["other"] += o.out != plain.out or bool(o.foreign)
        row["left"] += o.left
        row["crashed"] += o.crashed
        row["lines"] += bool(o.told)
        row["silent"] += not o.told and o.profiles == 0
    names = ("runs", "hit", "dead", "other", "left", "crashed", "lines", "silent")
    print("| where | kind | runs | failed a call | dead hosts | other output | exporters left |"
          " exporters crashed | told | no profile, not a word |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    sums = collections.defaultdict(collections.Counter)
    for (where, kind), row in sorted(rows.items()):
        print(f"| {where} | {kind} | " + " | ".join(str(row[n]) for n in names) + " |")
        sums[where, "all allocations" if kind == "allocation" else "all system calls"].update(row)
    for (where, kind), row in sums.items():
        print(f"| {where} | {kind} | " + " | ".join(str(row[n]) for n in names) + " |")


def main():
    build, wanted = os.path.abspath(sys.argv[1]), int(sys.argv[2])
    random.seed(int(sys.argv[3]) if len(sys.argv) > 3 else 11)
    bench = Bench(build)
    plain = bench.run(Point("plain", "", "", 0, 0))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        lists = [points_of(bench, where, kind, errors, pool)
                 for where, kinds in (("host", HOST), ("exporter", EXPORTER))
                 for kind, errors in kinds.items()]
        points = allocations(bench, wanted // 4)
        points += draw(lists, wanted - len(points))
        outcomes = list(pool.map(bench.run, points))
    bad = 0
    for o in outcomes:
        why = judge(o, plain)
        bad += bool(why)
        if why or o.crashed or (not o.told and o.profiles == 0) or "-v" in sys.argv:
            print(("FAIL " if why else "note ") + " ".join(map(str, o.point)) + ": " + "; ".join(why),
                  f"crashed {o.crashed}, profiles {o.profiles}, {o.told[:1]}")
            if "other output" in why:
                print(o.out)
            for frame in o.frames:
                print("    " + frame)
    table(outcomes, plain)
    if plain.foreign or plain.status != 23 << 8:
        print("FAIL without us:", plain)
        bad += 1
    print(f"{len(outcomes)} points, {bad} bad")
    return bad != 0


if __name__ == "__main__":
    sys.exit(main())
