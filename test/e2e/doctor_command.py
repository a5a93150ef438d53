#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs "spanprof-doctor -- COMMAND" at a terminal, and signals it.

usage: doctor_command.py ctrl-c|alone|group|answer|ignored OUT DOCTOR COMMAND...
       doctor_command.py graceful       counts SIGINT, and ends with status 3 a second after the first
       doctor_command.py signals        prints the signals that it ignores and blocks
       doctor_command.py question       asks on its standard error and prints the answer
       doctor_command.py daemon FILE    starts a process that writes to standard error after the end of this one

"ctrl-c": the terminal sends SIGINT to all; "alone": SIGINT goes to the doctor; "group": SIGINT goes to the group,
when COMMAND has said "ready". "answer": answers a question once it is shown. "ignored": starts the doctor with SIGINT
ignored. OUT gets the text on the terminal. Exit status: the doctor's.
"""
import os
import pty
import select
import signal
import subprocess
import sys
import time

LIMIT_S = 60


def at_terminal(what, out, command):
    pid, terminal = pty.fork()
    if pid == 0:
        if what == "ignored":
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        os.execvp(command[0], command)
    shown = b""
    acted = False
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end:
        if not select.select([terminal], [], [], 1)[0]:
            continue
        try:
            part = os.read(terminal, 65536)
        except OSError:
            part = b""
        if not part:
            break
        shown += part
        if acted or (b"ready" not in shown and b"what? " not in shown):
            continue
        acted = True
        if what == "ctrl-c":
            os.write(terminal, b"\x03")
        elif what == "alone":
            os.kill(pid, signal.SIGINT)
        elif what == "group":
            os.killpg(pid, signal.SIGINT)
        elif what == "answer":
            os.write(terminal, b"this\n")
    with open(out, "wb") as f:
        f.write(shown.replace(b"\r", b""))
    if time.monotonic() >= end:
        os.killpg(pid, signal.SIGKILL)
        sys.exit(f"FAIL: it does not end: {shown}")
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


def graceful():
    got = []
    signal.signal(signal.SIGINT, lambda *_: got.append(1))
    sys.stderr.write("ready on stderr\n")
    while not got:
        time.sleep(0.05)
    time.sleep(1)
    sys.stderr.write(f"got {len(got)}\n")
    sys.exit(3)


def signals():
    with open("/proc/self/status") as f:
        sys.stdout.write("".join(line for line in f if line.startswith(("SigIgn", "SigBlk"))))


def question():
    sys.stderr.write("what? ")
    sys.stderr.flush()
    print("answered", input())


def daemon(path):
    child = os.fork()
    if child == 0:
        os.setsid()
        while os.getppid() != 1 and not os.path.exists(path + ".go"):
            time.sleep(0.05)
        while not os.path.exists(path + ".go"):
            time.sleep(0.05)
        # Without a reader of the output SIGPIPE would end it.
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        os.write(2, b"from the daemon\n")
        with open(path, "w") as f:
            f.write("alive")
        os._exit(0)
    os._exit(0)


what, *args = sys.argv[1:]
if what == "graceful":
    graceful()
elif what == "signals":
    signals()
elif what == "question":
    question()
elif what == "daemon":
    daemon(*args)
else:
    at_terminal(what, args[0], args[1:])
