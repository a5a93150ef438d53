# SPDX-License-Identifier: Apache-2.0
"""Prints the peak resident memory in KiB of a command and of its exporter. Only the exporter's memory that belongs to
no file counts: it maps the host's objects, whose pages the kernel shares among all processes. Also prints the
command's CPU time in milliseconds. Usage: peak.py COMMAND [ARGUMENT]..., with BENCH_PRELOAD, which is preloaded into
the command and not into this program."""

import glob
import os
import re
import resource
import subprocess
import sys
import time

REGION = re.compile(r"^\S+ \S+ \S+ (\S+ \d+) +/memfd:spanprof", re.M)


def read(path):
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""


def exporter_of(pid):
    """The same as exporter_of in test/common/exporter.bash."""
    region = REGION.search(read(f"/proc/{pid}/maps"))
    for path in glob.glob("/proc/[0-9]*/maps") if region else ():
        maps = read(path)
        other = REGION.search(maps)
        if other and other[1] == region[1] and "/libspanprof.so" not in maps:
            return path.split("/")[2]
    return None


def main(command):
    preload = os.environ.pop("BENCH_PRELOAD", None)
    env = dict(os.environ, LD_PRELOAD=preload) if preload else os.environ
    host = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=env)
    exporter, most = None, 0
    # The kernel stores no peak of such memory, so it is read often, until the exporter is gone.
    while host.poll() is None or (exporter and os.path.exists(f"/proc/{exporter}")):
        exporter = exporter or (preload and exporter_of(host.pid))
        peak = re.search(r"^RssAnon:\s+(\d+)", read(f"/proc/{exporter}/status"), re.M)
        most = max(most, int(peak[1]) if peak else 0)
        time.sleep(0.005)
    if host.returncode != 0 or (preload and not most):
        sys.exit(f"peak: status {host.returncode}, {most} KiB beside it")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(used.ru_maxrss + most, round((used.ru_utime + used.ru_stime) * 1000))


if __name__ == "__main__":
    main(sys.argv[1:])
