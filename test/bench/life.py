# SPDX-License-Identifier: Apache-2.0
"""A process from its first span to its end, without the profiler and with several builds of it in turn: prints a
table of medians. Usage: life.py RUNS HOST NAME=FOLDER... FOLDER has libspanprof.so and its programs."""

import glob
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

# The first sample is due within the period of 1 ms plus a tick of the kernel.
FIRST_MS = 20
BURN_MS, FORKS, EXECS, THREADS = 200, 100, 50, 1000
# Processes in a run whose first span is measured.
FIRSTS = 10
ROWS = (
    ("the start of the first span", "first", "us", 0),
    ("the same, 99th percentile", "worst", "us", 0),
    ("the same in a program with 1,000 threads", "many", "us", 0),
    ("CPU time of the first sample", "sample", "us", 0),
    ("fork, `_exit()` and wait of a child", "fork", "us", 0),
    ("fork, exec of `/bin/true` and wait of a child", "exec", "us", 0),
    ("from `exit()` to the end of the process", "exit", "ms", 2),
    ("address space of the host", "size", "MiB", 1),
    ("private memory of the host", "private", "MiB", 1),
    ("private memory of its exporter", "exporter", "MiB", 1),
    ("CPU time in the first span that no sample is of", "head", "ms", 1),
)


def environment(build, folder):
    # At its first export the SDK's thread gets an arena of malloc, 64 MiB, which may be before or after its memory is
    # measured.
    env = dict(os.environ, OTELC_PROCESSOR="drop", MALLOC_ARENA_MAX="1")
    if build:
        env |= {
            "LD_PRELOAD": f"{build}/libspanprof.so",
            "SPANPROF_OUTPUT_DIR": folder,
            "SPANPROF_SAMPLE_RATE": "1000",
            "SPANPROF_UPLOAD_INTERVAL": "1s",
        }
    return env


def mib(pid, file, names):
    with open(f"/proc/{pid}/{file}") as lines:
        words = [line.split() for line in lines]
    return sum(int(w[1]) for w in words if w and w[0] in names) / 1024


def private_mib(pid):
    return mib(pid, "smaps_rollup", ("Private_Clean:", "Private_Dirty:"))


def exporters(build):
    found = []
    if not build:
        return found
    for link in glob.glob("/proc/[0-9]*/exe"):
        try:
            if os.readlink(link) == f"{build}/spanprof-exporter":
                found.append(int(link.split("/")[2]))
        except OSError:
            pass
    return found


def profiles(folder):
    return glob.glob(f"{folder}/*.pb.gz")


def wait_until(condition):
    end = time.monotonic() + 20
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)


def sampled_ms(build, folder):
    """CPU time that the samples count."""
    command = [f"{build}/spanprof-report", "--json", *profiles(folder)]
    report = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    unsampled = sum(f["self_ns"] for f in report["functions"] if f["function"] == "[unsampled cpu]")
    return (report["total"]["ns"] - unsampled) / 1e6


def start(host, build, folder, *numbers):
    process = subprocess.Popen(
        [host, *map(str, numbers)],
        env=environment(build, folder),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    return process, [float(word) for word in process.stdout.readline().split()]


def finish(process):
    process.stdin.close()
    now = int(process.stdout.readline())
    process.wait()
    return (time.clock_gettime_ns(time.CLOCK_MONOTONIC) - now) / 1e6


def whole_life(host, build, folder):
    """Memory is measured when the first profile has been written."""
    process, (*_, fork, execs) = start(host, build, folder, BURN_MS, FORKS, EXECS, 0)
    if build:
        wait_until(lambda: profiles(folder))
    figures = {"fork": fork, "exec": execs, "private": private_mib(process.pid)}
    figures["size"] = mib(process.pid, "status", ("VmSize:",))
    figures["exporter"] = sum(map(private_mib, exporters(build))) if build else 0
    figures["exit"] = finish(process)
    if build:
        wait_until(lambda: not exporters(build))
    return figures


def first_span(host, build, folder):
    process, (cpu, *_) = start(host, build, folder, BURN_MS, 0, 0, 0)
    finish(process)
    wait_until(lambda: not exporters(build))
    return {"head": cpu - sampled_ms(build, folder)}


def many_threads(host, build, folder):
    process, (_, first, *_) = start(host, build, folder, 0, 0, 0, THREADS)
    finish(process)
    wait_until(lambda: not exporters(build))
    return {"many": first}


def first_spans(host, build, count):
    """And first samples, of processes that do nothing else."""
    firsts, samples = [], []
    for _ in range(count):
        with tempfile.TemporaryDirectory() as folder:
            process, (_, first, sample, *_) = start(host, build, folder, FIRST_MS, 0, 0, 0)
            finish(process)
            wait_until(lambda: not exporters(build))
        firsts.append(first)
        samples.append(sample)
    return {"first": firsts, "sample": [took for took in samples if took]}


def cells_of(builds, figures):
    for question, key, unit, digits in ROWS:
        cells = []
        for name, _ in builds:
            values = figures[name].get(key)
            if key == "worst":
                value = statistics.quantiles(figures[name]["first"], n=100)[-1]
            else:
                value = statistics.median(values) if values else None
            cells.append("" if value is None else f"{value:.{digits}f} {unit}")
        yield question, cells


def main():
    runs, host = int(sys.argv[1]), sys.argv[2]
    builds = [("without us", "")] + [tuple(word.split("=", 1)) for word in sys.argv[3:]]
    figures = {name: {} for name, _ in builds}
    for _ in range(runs):
        for name, build in builds:
            measures = [whole_life, many_threads] + ([first_span] if build else [])
            found = first_spans(host, build, FIRSTS)
            for measure in measures:
                with tempfile.TemporaryDirectory() as folder:
                    found |= measure(host, build, folder)
            for key, value in found.items():
                values = figures[name].setdefault(key, [])
                values += value if isinstance(value, list) else [value]
    for question, cells in cells_of(builds, figures):
        print(f"| {question} | {' | '.join(cells)} |")


main()
