# SPDX-License-Identifier: Apache-2.0
"""Stops, slows and kills the exporters of a program and its children at random, until SIGTERM.

usage: harry.py FOLDER STOP_MS [KILL_AFTER_MS]

Its exporters are the processes with FOLDER as SPANPROF_OUTPUT_DIR. The first one, which belongs to the program
itself, is only stopped and slowed, and killed after KILL_AFTER_MS if that is given. No exporter stays stopped for
longer than STOP_MS. At SIGTERM this program prints what it did, lets all exporters go on, and waits for their end:
"left N" is the number that have not ended within half a minute.
"""

import os
import random
import signal
import sys
import time

LEFT_S = 30
SLOW_S = 1


def exporters(folder):
    wanted = f"SPANPROF_OUTPUT_DIR={folder}".encode()
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/comm", "rb") as f:
                if f.read() != b"spanprof-export\n":
                    continue
            with open(f"/proc/{name}/environ", "rb") as f:
                if wanted in f.read().split(b"\0"):
                    found.append(int(name))
        except OSError:
            pass
    return found


def start_time(pid):
    """Process ids are reused now and then."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as f:
            return int(f.read().rsplit(b")", 1)[1].split()[19]), pid
    except OSError:
        return sys.maxsize, pid


def send(pid, signo):
    try:
        os.kill(pid, signo)
        return True
    except OSError:
        return False


def main():
    folder, stop_s = sys.argv[1], int(sys.argv[2]) / 1000
    kill_at = time.monotonic() + int(sys.argv[3]) / 1000 if len(sys.argv) > 3 else None
    ending = []
    signal.signal(signal.SIGTERM, lambda *_: ending.append(True))
    random.seed(11)
    done = {"stopped": 0, "slowed": 0, "killed": 0}
    stopped = {}
    first = None
    while not ending:
        time.sleep(0.02)
        now = time.monotonic()
        for pid in [p for p, until in stopped.items() if now >= until]:
            send(pid, signal.SIGCONT)
            del stopped[pid]
        seen = exporters(folder)
        if not seen:
            continue
        first = first or min(seen, key=start_time)
        if kill_at is not None and now > kill_at and first in seen:
            done["killed"] += send(first, signal.SIGKILL)
            kill_at = None
            continue
        pid = random.choice(seen)
        what = random.random()
        if pid in stopped:
            continue
        if what < 0.3 and pid != first:
            done["killed"] += send(pid, signal.SIGKILL)
        elif what < 0.4:
            # Mostly short pauses; now and then one as long as allowed.
            if send(pid, signal.SIGSTOP):
                stopped[pid] = now + stop_s * random.random() ** 3
                done["stopped"] += 1
        elif what < 0.5:
            done["slowed"] += 1
            end = now + SLOW_S * random.random()
            while time.monotonic() < end and send(pid, signal.SIGSTOP):
                time.sleep(0.009)
                send(pid, signal.SIGCONT)
                time.sleep(0.001)
    for pid in exporters(folder):
        send(pid, signal.SIGCONT)
    end = time.monotonic() + LEFT_S
    while exporters(folder) and time.monotonic() < end:
        time.sleep(0.05)
    print(f"exporters: {done['stopped']} times stopped, {done['slowed']} slowed, {done['killed']} killed")
    print("left", len(exporters(folder)))


main()
