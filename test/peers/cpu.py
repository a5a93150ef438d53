# SPDX-License-Identifier: Apache-2.0
"""Runs a command and writes the CPU seconds of all that came of it: usage cpu.py FILE COMMAND...

Two numbers: of the command and its descendants, and of our exporters. Suites leave processes behind
that nobody waits for (redis' clients, daemons), and exporters are nobody's children, so all orphans become
ours (PR_SET_CHILD_SUBREAPER). What is still there a minute after the command's end is not waited for."""

import ctypes
import os
import signal
import sys

PR_SET_CHILD_SUBREAPER = 36
PATIENCE_S = 60


def is_exporter(pid):
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as comm:
            return comm.read().startswith("spanprof-export")
    except OSError:
        return False


def main(path, command):
    if ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        sys.exit("cpu.py: cannot be a subreaper")
    child = os.fork()
    if child == 0:
        os.execvp(command[0], command)
    seconds = {False: 0.0, True: 0.0}
    status = 0

    def stop(_signo, _frame):
        raise TimeoutError

    signal.signal(signal.SIGALRM, stop)
    try:
        while True:
            # Its name is there until it is waited for.
            pid = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT).si_pid
            exporter = is_exporter(pid)
            _, ended, usage = os.wait4(pid, 0)
            seconds[exporter] += usage.ru_utime + usage.ru_stime
            if pid == child:
                status = os.waitstatus_to_exitcode(ended)
                signal.alarm(PATIENCE_S)
    except (ChildProcessError, TimeoutError):
        pass
    with open(path, "w", encoding="utf-8") as file:
        print(f"{seconds[False]:.2f} {seconds[True]:.2f}", file=file)
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
