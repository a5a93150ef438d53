#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the lane of this folder stands on: what its judge accepts as an explanation, by faults that are made here, and that
the exporter is found. Processes are numbers, times are seconds: of the run, of each status, and of the profiles of each
process."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import judge
import programs

BEFORE = "%.3f s of its CPU time were used before profiling began: by exec, the loader, constructors of libraries"
MISSING = "%.3f s of its CPU time are in no profile"
CUT_OFF = ("it ended by a system call of its own, or by a signal: what each of its 4 threads used since its last sample, up "
           "to 10 ms, is in no profile")
UNSEEN = "processes that it has started used %.2f s of CPU time and ended before they were looked at: a program that was"
BARE = '2 processes of "a worker" run without the profiler (LD_PRELOAD is not in their environment): %.2f s of CPU time'


def status(pid, used_s, *said):
    return {"pid": pid, "used_s": used_s, "said": list(said)}


def explained(cpu_s, statuses, seen_s):
    return round(judge.explained_s(cpu_s, statuses, seen_s), 6)


class Explanations(unittest.TestCase):
    def test_nothing_is_said(self):
        self.assertEqual(explained(1, [status(1, 1)], {1: 0.3}), 0)
        self.assertEqual(explained(1, [], {}), 0)

    def test_a_sentence_without_a_time_explains_nothing(self):
        for text in ("waits have no stacks: the program is not dumpable", "20 samples were taken, and no span was recorded",
                     "the last push to http://p failed: 1.00 s of CPU time", "the program used 1.00 s of CPU time",
                     "its CPU time are in no profile", "5 samples were lost, the machine is very busy"):
            self.assertEqual(explained(1, [status(1, 1, text)], {1: 0.3}), 0, text)

    def test_a_time_explains_as_much_as_it_tells(self):
        self.assertEqual(explained(1, [status(1, 1, BEFORE % 0.1)], {1: 0.8}), 0.1005)
        self.assertEqual(explained(1, [status(1, 1, BEFORE % 0.1, MISSING % 0.05)], {1: 0.8}), 0.151)
        self.assertEqual(explained(1, [status(1, 1, CUT_OFF)], {1: 0.8}), 0.04)
        # The rest was used after the last reading of its clock.
        self.assertEqual(explained(1.03, [status(1, 1, CUT_OFF)], {1: 1}), 0.03)
        self.assertEqual(explained(1.1, [status(1, 1, CUT_OFF)], {1: 0.98}), 0.04)

    def test_ends_of_processes_are_after_the_last_look(self):
        self.assertEqual(round(judge.explained_s(1, [status(1, 0.9)], {1: 0.9}, 0.05), 6), 0.05)
        self.assertEqual(round(judge.explained_s(1, [status(1, 0.9)], {1: 0.9}, 0.5), 6), 0.1)
        self.assertEqual(round(judge.explained_s(1, [status(1, 1)], {1: 0.9}, 0.5), 6), 0)

    def test_no_more_than_is_missing(self):
        self.assertEqual(explained(1, [status(1, 1, BEFORE % 0.9)], {1: 0.8}), 0.2)
        self.assertEqual(explained(1, [status(1, 1, MISSING % 0.9)], {1: 1.1}), 0)

    def test_a_lost_profile_is_not_explained_by_the_process_beside_it(self):
        two = [status(1, 1, BEFORE % 0.5), status(2, 1)]
        self.assertEqual(explained(2, two, {1: 0.5}), 0.5)
        two = [status(1, 1), status(2, 1, UNSEEN % 5)]
        self.assertEqual(explained(2, two, {2: 1}), 0)

    def test_processes_below_explain_what_has_no_status(self):
        one = [status(1, 1, BARE % 2.5)]
        self.assertEqual(explained(4, one, {1: 1}), 2.505)
        self.assertEqual(explained(3, one, {1: 1}), 2)
        # A process with profiles and without a status is not missing.
        self.assertEqual(explained(4, one, {1: 1, 2: 1.5}), 1.5)
        self.assertEqual(explained(4, [status(1, 1, BARE % 1, UNSEEN % 1)], {1: 1}), 2.01)

    def test_the_clock_of_a_process_may_be_behind_its_profiles(self):
        self.assertEqual(explained(2, [status(1, 0.5, UNSEEN % 1)], {1: 1}), 1)

    def test_the_kinds_of_processes(self):
        for text in ('1 process of "b" runs without the profiler (it is static): 0.20 s of CPU time',
                     '1 process of "b (c)" may run without the profiler (the exporter may not look into it): 0.20 s of CPU time'):
            self.assertEqual([round(s, 6) for s in judge.told_of(text)], [0, 0, 0.205], text)


class Files(unittest.TestCase):
    def test_the_process_of_a_profile(self):
        name = "/x/spanprof-a-1-20261128T123456Z-b-4711-20261128T123456Z-0123abcd-000001%s"
        self.assertEqual(judge.process_of(name % ".pb.gz"), 4711)
        self.assertEqual(judge.process_of(name % "-alloc.otlp.gz"), 4711)
        self.assertEqual(judge.process_of("/x/other.pb.gz"), 0)

    def test_statuses(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(folder + "/status-7", "w") as file:
                json.dump({"pid": 7, "cpu_time": {"process_ns": 1500000000}, "problems": [{"text": "a", "remedy": None}]}, file)
            with open(folder + "/status-8", "w") as file:
                file.write("{")
            self.assertEqual(judge.read_statuses(folder), [status(7, 1.5, "a")])


class Rows(unittest.TestCase):
    def test_bad(self):
        def row(covered, told, **other):
            return {"wrong": [], "modes": {"100": {"covered": covered, "explained": told}}, **other}

        self.assertFalse(programs.is_bad(row(0.98, 0), 0.97))
        self.assertTrue(programs.is_bad(row(0.96, 0), 0.97))
        self.assertTrue(programs.is_bad(row(0.04, 0.92), 0.97))
        self.assertFalse(programs.is_bad(row(0.04, 0.94), 0.97))
        self.assertTrue(programs.is_bad(row(0.98, 0, wrong=["100: out"]), 0.97))
        self.assertTrue(programs.is_bad({"failed": "no packages"}, 0.97))
        # Each mode by itself.
        both = row(0.98, 0)
        both["modes"]["1000"] = {"covered": 0.9, "explained": 0.06}
        self.assertTrue(programs.is_bad(both, 0.97))

    def test_a_row_cannot_explain_itself(self):
        with self.assertRaises(SystemExit):
            programs.Row("x", {"run": "true", "why": "it is always so"})


class Exporter(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.program = self.folder + "/spanprof-exporter"
        shutil.copy(programs.UNDER, self.program)
        os.mkdir(self.folder + "/product")
        with open(self.folder + "/product/spanprof-exporter", "w") as file:
            file.write("#!/bin/sh\necho \"executed with $1\"\n")
        os.chmod(self.folder + "/product/spanprof-exporter", 0o755)

    def said(self, execute):
        child = "import os, sys\n" + execute
        done = subprocess.run([sys.executable, "-c", child, self.program], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True, check=False)
        return done.stdout

    def test_executed_by_its_path(self):
        self.assertEqual(self.said("os.execv(sys.argv[1], ['spanprof-exporter', 'proof'])"), "executed with proof\n")

    def test_executed_from_a_copy_in_memory(self):
        self.assertEqual(self.said("fd = os.memfd_create('spanprof-exporter', 0)\n"
                                   "os.write(fd, open(sys.argv[1], 'rb').read())\n"
                                   "os.execv('/proc/self/fd/%d' % fd, [sys.argv[1], 'proof'])"), "executed with proof\n")


if __name__ == "__main__":
    unittest.main()
