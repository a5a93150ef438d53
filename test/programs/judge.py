# SPDX-License-Identifier: Apache-2.0
"""Whether CPU time that is in no profile of a run is explained. Nothing counts as an explanation but a sentence of a
status that gives a CPU time, and it explains no more than that time:

  of the process itself   at most what the kernel counted for that process, without what is in the files of its profiles; of
                          one that was cut off, also what it used after the last look at its clock
  of processes below it   at most what the kernel counted for all processes of the run, without those that have a status
                          and without the profiles of the others

So a profile that was lost is never explained by a process beside it, and a sentence without a figure explains nothing.
"""
import glob
import json
import os
import re

OWN = (
    r"^([\d.]+) s of its CPU time were used before profiling began",
    r"^([\d.]+) s of its CPU time are in no profile",
)
# Threads, and milliseconds of each.
CUT_OFF = r"what each of its (\d+) threads used since its last sample, up to (\d+) ms, is in no profile"
BELOW = (
    r"^processes that it has started used ([\d.]+) s of CPU time and ended before they were looked at",
    r"^\d+ process(?:es)? of \".*\" (?:may )?runs? without the profiler \(.*\): ([\d.]+) s of CPU time$",
)


def most(text):
    """The largest number that is written like that: 0.002 is up to 0.0025."""
    return float(text) + 0.5 / 10 ** len(text.partition(".")[2])


def told_of(sentence):
    """Seconds of CPU time that a sentence tells at most: of the process itself, of that after the last look at its clock,
    and of processes below it."""
    for pattern in OWN:
        found = re.search(pattern, sentence)
        if found:
            return most(found[1]), 0.0, 0.0
    found = re.search(CUT_OFF, sentence)
    if found:
        return 0.0, int(found[1]) * int(found[2]) / 1e3, 0.0
    for pattern in BELOW:
        found = re.search(pattern, sentence)
        if found:
            return 0.0, 0.0, most(found[1])
    return 0.0, 0.0, 0.0


def read_statuses(folder):
    """A process has one, of the program that it executed last."""
    statuses = []
    for path in sorted(glob.glob(folder + "/status*")):
        try:
            with open(path) as file:
                status = json.load(file)
        except ValueError:
            continue
        statuses.append({"pid": status["pid"], "used_s": status["cpu_time"]["process_ns"] / 1e9,
                         "said": [problem["text"] for problem in status["problems"]]})
    return statuses


def process_of(path):
    """The process that a file of a profile is of."""
    found = re.search(r"-(\d+)-\d{8}T\d{6}Z-[0-9a-f]{8}-\d{6}[^/]*$", os.path.basename(path))
    return int(found[1]) if found else 0


def explained_s(cpu_s, statuses, seen_s, ends_s=0.0):
    """Of the CPU time of a run, what is in no profile and is told. seen_s: by process, what its profiles have. ends_s: what
    the kernel took for the ends of its processes, after the last look of each at its clock, as it was measured."""
    own, below, others = 0.0, ends_s, cpu_s
    left = dict(seen_s)
    for status in statuses:
        seen = left.pop(status["pid"], 0.0)
        told, late, others_told = (sum(t) for t in zip(*map(told_of, status["said"]), (0.0, 0.0, 0.0)))
        explained = max(min(status["used_s"] - seen, told + late), 0.0)
        own += explained
        below += others_told + min(late, told + late - explained)
        others -= max(status["used_s"], seen)
    others -= sum(left.values())
    return own + max(min(others, below), 0.0)

