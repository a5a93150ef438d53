#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which part of the CPU time of Debian's HAProxy is in its profile, for each way to start it and each way in which it
gives up rights. Prints the rows of README.md's table. The kernel's clocks of its processes are the reference. Needs
root, haproxy and wrk. Usage: daemons.py [SECONDS]"""
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 4
MODES = ("-db", "-D", "-W", "-Ws")
RIGHTS = ("none", "user", "chroot", "both")
CONFIGURATION = """global
  nbthread 2
  pidfile {folder}/pid
{rights}
defaults
  mode http
  timeout client 5s
  timeout server 5s
  timeout connect 5s
frontend all
  bind 127.0.0.1:{port}
  http-request return status 200 content-type text/plain lf-string "%[rand(1000000),sha2(512),hex,sha1,hex]"
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def processes(configuration):
    """The processes of that HAProxy, whose command line names the configuration."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                words = file.read().decode().split("\0")
            with open(f"/proc/{name}/comm", encoding="utf-8") as file:
                is_ours = file.read().startswith("spanprof")
        except OSError:
            continue
        if configuration in words and not is_ours:
            found.append(int(name))
    return found


def cpu_seconds(pid):
    try:
        return time.clock_gettime((~pid) << 3 | 2)
    except OSError:
        return 0


def wait_for(condition, seconds):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)


def listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def profiled_seconds(folder):
    report = subprocess.run(["build/spanprof-report", "--json", folder], capture_output=True, check=False)
    return json.loads(report.stdout)["total"]["ns"] / 1e9 if report.returncode == 0 else 0


def measure(objects, mode, rights):
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        for name in ("profiles", "root"):
            os.mkdir(f"{folder}/{name}")
            os.chmod(f"{folder}/{name}", 0o777)
        lines = ["  user haproxy\n  group haproxy"] if rights in ("user", "both") else []
        lines += [f"  chroot {folder}/root"] if rights in ("chroot", "both") else []
        configuration, port = f"{folder}/haproxy.cfg", free_port()
        with open(configuration, "w", encoding="utf-8") as file:
            file.write(CONFIGURATION.format(folder=folder, rights="\n".join(lines), port=port))
        environment = dict(
            os.environ, LD_PRELOAD=f"{objects}/libspanprof.so", SPANPROF_PROFILE="always",
            SPANPROF_OUTPUT_DIR=f"{folder}/profiles", SPANPROF_UPLOAD_INTERVAL="1s")
        with subprocess.Popen(["haproxy", mode, "-f", configuration], env=environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as started:
            wait_for(lambda: listens(port), 10)
            subprocess.run(["wrk", "-t1", "-c8", f"-d{SECONDS:.0f}s", f"http://127.0.0.1:{port}/"],
                           stdout=subprocess.DEVNULL, check=True)
            pids = processes(configuration)
            used = sum(map(cpu_seconds, pids))
            for pid in pids:
                os.kill(pid, signal.SIGTERM)
            wait_for(lambda: not processes(configuration), 15)
            started.wait(15)
        wait_for(lambda: profiled_seconds(f"{folder}/profiles") > 0.98 * used, 3)
        return used, profiled_seconds(f"{folder}/profiles")


def main():
    for program in ("haproxy", "wrk"):
        if shutil.which(program) is None:
            sys.exit(f"{program} is not installed")
    # The new user of HAProxy has to be able to read them.
    with tempfile.TemporaryDirectory() as objects:
        os.chmod(objects, 0o755)
        for name in ("libspanprof.so", "spanprof-exporter"):
            shutil.copy(f"build/{name}", objects)
        print("| start | gives up | CPU time | in the profile |\n|---|---|---|---|")
        for mode in MODES:
            for rights in RIGHTS:
                used, profiled = measure(objects, mode, rights)
                print(f"| `{mode}` | {rights} | {used:.2f} s | {100 * profiled / used:.1f} % |", flush=True)


if __name__ == "__main__":
    main()
