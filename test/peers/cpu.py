# SPDX-License-Identifier: Apache-2.0
"""Runs a command and writes the CPU seconds of all processes that it started: usage cpu.py FILE COMMAND...

No wait() returns the CPU time of our exporters: the kernel reaps them, so the host does not see it. So the kernel
counts with a perf counter that descendants inherit. Suites leave processes behind for which nobody waits (redis'
clients, daemons, exporters whose host was killed): all orphans become children of this process
(PR_SET_CHILD_SUBREAPER). A process that still runs a minute after the command's end is not awaited."""

import ctypes
import os
import signal
import struct
import sys

PR_SET_CHILD_SUBREAPER = 36
PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241}
# struct perf_event_attr in its first size: the type is software, the config the task's clock. An unprivileged user
# has to exclude the kernel (exclude_kernel); this clock counts the kernel's time all the same.
INHERIT, EXCLUDE_KERNEL = 1 << 1, 1 << 5
TASK_CLOCK = struct.pack("=IIQQQQQ", 1, 64, 1, 0, 0, 0, INHERIT | EXCLUDE_KERNEL).ljust(64, b"\0")
PATIENCE_S = 60


def main(path, command):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        sys.exit("cpu.py: cannot be a subreaper")
    counter = libc.syscall(PERF_EVENT_OPEN[os.uname().machine], TASK_CLOCK, 0, -1, -1, 0)
    if counter < 0:
        sys.exit(f"cpu.py: perf_event_open(): {os.strerror(ctypes.get_errno())}")
    child = os.fork()
    if child == 0:
        os.close(counter)
        os.execvp(command[0], command)
    status = 0

    def stop(_signo, _frame):
        raise TimeoutError

    signal.signal(signal.SIGALRM, stop)
    try:
        while True:
            pid, ended = os.wait()
            if pid == child:
                status = os.waitstatus_to_exitcode(ended)
                signal.alarm(PATIENCE_S)
    except (ChildProcessError, TimeoutError):
        pass
    with open(path, "w", encoding="utf-8") as file:
        print(f"{struct.unpack('=Q', os.read(counter, 8))[0] / 1e9:.3f}", file=file)
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
