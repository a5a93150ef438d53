#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Unmodified programs with and without the profiler. A table of rows/*.toml describes each:

  title, package   its name and the package whose version is shown; package may be a shell command in $(...)
  root             the root that it runs in: bookworm (the default) or sid; or here, for no root
  packages         what is installed there for it
  prepare          shell, once: what it needs in $PWD, which every run begins with a copy of, in memory and without venv/
  run              shell: starts programs by "$UNDER PROGRAM ...", asks them, ends them, and prints what has to be the same
  same             sed -E: takes from the output what differs from run to run anyway
  limit_s          how long a run may take (60)
  here             true: the row also runs on the machine itself, with what "make test" installs
  covered_here     the share of its CPU time that has to be in profiles or told there (--covered)

Each round runs the row without the profiler and in each mode, one after the other. Outside the profiler stand: the
kernel's cgroups, one for the program and one for the exporter, whose CPU time is measured; the kernel's process events,
which tell each process that dies by a signal; and what is printed.

  programs.py [--only NAME[,NAME]...] [--rounds N] [--modes MODE[,MODE]...] [--covered SHARE]
              [--resume] [--here] [--show] [--keep]
  programs.py --table
"""
import argparse
import collections
import difflib
import glob
import gzip
import json
import os
import re
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
import tomllib

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "test", "common"))
import judge
from pb import fields, packed

ROWS = os.path.join(ROOT, "test", "programs", "rows")
README = os.path.join(ROOT, "test", "programs", "README.md")
BUILD = os.path.join(ROOT, "build", "programs")
RESULTS = os.path.join(BUILD, "results")
UNDER = os.path.join(ROOT, "build", "test", "under")

ALWAYS = {"SPANPROF_PROFILE": "always", "SPANPROF_APPLICATION_NAME": "program", "SPANPROF_SYMBOLIZE": "names",
          "SPANPROF_STACK_DEPTH": "496", "SPANPROF_FLUSH_TIMEOUT": "30s"}
ALL = {"SPANPROF_OFF_CPU": "true", "SPANPROF_OFF_CPU_TARGETS": "true", "SPANPROF_WALL": "true",
       "SPANPROF_ALLOC": "true", "SPANPROF_THREAD_NAME": "true", "SPANPROF_SPAN_TIMES": "true"}
MODES = {"plain": None, "100": {"SPANPROF_SAMPLE_RATE": "100"}, "1000": {"SPANPROF_SAMPLE_RATE": "1000"},
         "100-all": {"SPANPROF_SAMPLE_RATE": "100", **ALL}, "1000-all": {"SPANPROF_SAMPLE_RATE": "1000", **ALL}}
COVERED_MIN = 0.97
# Most runs end within two seconds on a machine that does nothing else.
LIMIT_S = 60
# In a busy machine an exporter needs longer than the program.
EXPORTER_S = 60
FATAL = {signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGSYS, signal.SIGTRAP,
         signal.SIGPROF, signal.SIGVTALRM, signal.SIGXCPU}

PRELUDE = r"""
set -u
# await COMMAND...: until it succeeds, ten seconds at most.
await()
{
	local i

	for i in {1..200}; do
		"$@" >/dev/null 2>&1 && return
		sleep 0.05
	done
	echo "in vain: $*"
}
# stop SIGNAL PROCESS: prints how the process, a child of this shell, ends.
stop()
{
	local status=0

	kill "-$1" "$2"
	wait "$2" || status=$?
	echo "ended with status $status"
}
# gone PROCESS: waits for the end of a process that is no child.
gone()
{
	await eval "! kill -0 $1"
}
"""

# Python's packages are used where they are.
COPY = r"""
chmod --reference='{0}' '{0}.run'
chown --reference='{0}' '{0}.run'
cd '{0}'
find . -mindepth 1 -maxdepth 1 ! -name venv -exec cp -a -t '{0}.run' {{}} +
cd '{0}.run'
"""


def die(message):
    sys.exit("programs: " + message)


class Deaths(threading.Thread):
    """The kernel's process events: the signals by which the processes below one process died (proc connector)."""
    FORK, EXIT = 1, 0x80000000

    def __init__(self):
        super().__init__(daemon=True)
        self.lock = threading.Lock()
        self.below, self.found, self.overrun = set(), [], False
        self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, 11)
        self.socket.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)
        self.socket.bind((0, 1))
        message = struct.pack("=IIIIHHI", 1, 1, 0, 0, 4, 0, 1)
        self.socket.send(struct.pack("=IHHII", 16 + len(message), 3, 0, 0, 0) + message)

    def watch(self, process):
        with self.lock:
            self.below, self.found, self.overrun = {process}, [], False

    def taken(self):
        with self.lock:
            return sorted(self.found), self.overrun

    def run(self):
        while True:
            try:
                data = self.socket.recv(1 << 16)
            except OSError:
                self.overrun = True
                continue
            if len(data) < 36 + 16 + 16:
                continue
            what, = struct.unpack_from("=I", data, 36)
            if what not in (self.FORK, self.EXIT):
                continue
            a = struct.unpack_from("=IIII", data, 52)
            with self.lock:
                if what == self.FORK and a[1] in self.below:
                    self.below.add(a[3])
                elif what == self.EXIT and a[0] == a[1] and a[0] in self.below:
                    number = a[2] & 0x7f
                    if number in FATAL:
                        self.found.append(signal.Signals(number).name)


class Groups:
    """Cgroups of the program, of the exporter, and of the script that asks the program."""
    KINDS = ("app", "exporter", "script")

    def __init__(self):
        # Writable for everybody, as an exporter may be anybody's; a process moves only itself.
        self.mount = os.path.join(BUILD, "cgroup")
        os.makedirs(self.mount, exist_ok=True)
        subprocess.run(["mount", "-t", "cgroup2", "none", self.mount], check=True)
        self.path = os.path.join(self.mount, "spanprof-programs-%d" % os.getpid())
        for path in [self.path] + [os.path.join(self.path, kind) for kind in self.KINDS]:
            os.mkdir(path)
            os.chmod(os.path.join(path, "cgroup.procs"), 0o666)

    def read(self, kind, name):
        with open(os.path.join(self.path, kind, name)) as file:
            return file.read()

    def cpu_s(self, kind):
        return int(re.search(r"usage_usec (\d+)", self.read(kind, "cpu.stat"))[1]) / 1e6

    def empty(self, kind, limit_s):
        end = time.monotonic() + limit_s
        while "populated 1" in self.read(kind, "cgroup.events"):
            if time.monotonic() > end:
                return False
            time.sleep(0.02)
        return True

    def names(self, kind):
        found = []
        for process in self.read(kind, "cgroup.procs").split():
            try:
                with open("/proc/%s/comm" % process) as file:
                    found.append(file.read().strip())
            except OSError:
                pass
        return sorted(found)

    def kill(self):
        for kind in self.KINDS:
            with open(os.path.join(self.path, kind, "cgroup.kill"), "w") as file:
                file.write("1")
            self.empty(kind, 10)

    def remove(self):
        self.kill()
        for kind in self.KINDS:
            os.rmdir(os.path.join(self.path, kind))
        os.rmdir(self.path)


def read_cpu(path):
    """The stacks of a profile of CPU time, as (names, leaf first, ns); none of another type."""
    with gzip.open(path) as file:
        parts = collections.defaultdict(list)
        for number, value in fields(file.read()):
            parts[number].append(value)
    text = [s.decode(errors="replace") for s in parts[6]]
    types = [text[dict(fields(t)).get(1, 0)] for t in parts[1]]
    if "cpu" not in types:
        return []
    at = types.index("cpu")
    functions = {}
    for function in parts[5]:
        f = dict(fields(function))
        functions[f[1]] = text[f.get(2, 0)]
    locations = {}
    for location in parts[4]:
        lines = [dict(fields(v)) for n, v in fields(location) if n == 4]
        locations[dict(fields(location))[1]] = [functions[line[1]] for line in lines]
    stacks = []
    for sample in parts[2]:
        ids, values = [], []
        for number, value in fields(sample):
            if number == 1:
                ids += packed(value)
            elif number == 2:
                values += packed(value)
        stacks.append(([name for i in ids for name in locations[i]], values[at]))
    return stacks


def seen_in(folder):
    """What the profiles of a run say of CPU time: seconds, shares of them, and seconds by process."""
    seen, processes = collections.Counter(), collections.Counter()
    for path in glob.glob(folder + "/*.pb.gz"):
        for stack, ns in read_cpu(path):
            seen["s"] += ns / 1e9
            processes[judge.process_of(path)] += ns / 1e9
            if "[unsampled cpu]" in stack:
                seen["unsampled_s"] += ns / 1e9
                continue
            seen["frames"] += len(stack)
            seen["hex"] += sum(bool(re.search(r"0x[0-9a-f]+$", name)) for name in stack)
            seen["made"] += sum(name in ("[anon]", "[unknown]") for name in stack)
            if stack and stack[-1] in ("[incomplete]", "[truncated]"):
                seen["incomplete_s"] += ns / 1e9
    return dict(seen), dict(processes)


def said_in(statuses):
    """The sentences of a run that tell CPU time, each once, with the sum of what it tells; the longest time first."""
    said = collections.Counter()
    for status in statuses:
        for sentence in status["said"]:
            if any(judge.told_of(sentence)):
                said[re.sub(r"[\d.]+", "N", sentence)] += sum(judge.told_of(sentence))
    return said.most_common()


class Place:
    """A root, or the machine itself: where rows run."""

    def __init__(self, name, path, groups):
        self.name, self.path, self.groups = name, path, groups
        base = path or tempfile.mkdtemp(prefix="here-", dir=BUILD)
        self.scratch = None if path else base
        os.chmod(base, 0o755)
        self.work = base + "/lane-work"
        # Of this lane: another one may run other rows in the same root.
        self.lane = base + "/lane-%d" % os.getpid()
        self.inside = "/lane-%d" % os.getpid() if path else self.lane
        self.inside_work = "/lane-work" if path else self.work
        shutil.rmtree(self.lane, ignore_errors=True)
        os.makedirs(self.lane + "/cgroup")
        os.makedirs(self.lane + "/product")
        os.makedirs(self.work, exist_ok=True)
        for folder in (self.lane, self.work):
            os.chmod(folder, 0o755)
        for name_of in ("under", "spanprof-exporter"):
            shutil.copy(UNDER, os.path.join(self.lane, name_of))
        # In a root, with the libraries that the exporter needs.
        product = os.path.join(ROOT, "build/carrier/lib/spanprof" if path else "build")
        subprocess.run(["mount", "--bind", product, self.lane + "/product"], check=True)
        # Beside the object the exporter is found that goes into a cgroup of its own first.
        for name_of in ("libspanprof.so", "libspanprof-alloc.so"):
            shutil.copy(os.path.join(product, name_of), self.lane)
        subprocess.run(["mount", "--bind", groups.path, self.lane + "/cgroup"], check=True)
        if path:
            subprocess.run(["bash", "-c", "source test/common/roots.bash; root_mount '%s' '%s'"
                            % (path, os.path.join(BUILD, "archives"))], cwd=ROOT, check=True)

    def command(self, script, network=False):
        """A shell script in the place, with no network but the loopback."""
        path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        inside = ["env", "-i", "LC_ALL=C", "TZ=UTC", "HOME=" + self.inside_work, "TERM=dumb",
                  "PATH=" + (path if self.path else os.environ.get("PATH", path)),
                  "UNDER=" + self.inside + "/under", "LANE=" + self.inside, "DEBIAN_FRONTEND=noninteractive"]
        if network:
            proxies = [n + "=" + v for n, v in os.environ.items() if n.endswith("_proxy")]
            inside += proxies
        inside += ["bash", "-c", script]
        if self.path:
            inside = ["chroot", self.path] + inside
        if network:
            return inside
        return ["unshare", "--net", "--ipc", "sh", "-c", 'busybox ip link set lo up; exec "$@"', "sh"] + inside

    def install(self, packages):
        if not self.path or not packages:
            return True
        missing = [p for p in packages if not os.path.exists(self.path + "/var/lib/dpkg/info/%s.list" % p) and
                   not glob.glob(self.path + "/var/lib/dpkg/info/%s:*.list" % p)]
        if not missing:
            return True
        script = ("printf '#!/bin/sh\\nexit 101\\n' >/usr/sbin/policy-rc.d; chmod 755 /usr/sbin/policy-rc.d; "
                  "echo force-unsafe-io >/etc/dpkg/dpkg.cfg.d/unsafe-io; "
                  "apt-get -q update && apt-get -y -q --no-install-recommends install " + " ".join(missing))
        with open(os.path.join(BUILD, "install-%s.log" % self.name), "ab") as log:
            return subprocess.run(self.command(script, True), stdin=subprocess.DEVNULL, stdout=log,
                                  stderr=log).returncode == 0

    def remove(self):
        for mount in ("cgroup", "product"):
            subprocess.run(["umount", os.path.join(self.lane, mount)], check=True)
        shutil.rmtree(self.scratch or self.lane, ignore_errors=True)

    def version(self, package):
        if package.startswith("$("):
            script = "echo " + package
        else:
            script = "dpkg-query -W -f '${Version}' " + package
        done = subprocess.run(self.command(script, True), capture_output=True, text=True, stdin=subprocess.DEVNULL)
        return done.stdout.strip()


class Row:
    def __init__(self, name, row):
        self.name = name
        self.title = row.pop("title", self.name)
        self.package = row.pop("package", self.name)
        self.root = row.pop("root", "bookworm")
        self.packages = row.pop("packages", "").split()
        self.prepare = row.pop("prepare", "")
        self.run = row.pop("run")
        self.same = row.pop("same", "")
        self.limit_s = row.pop("limit_s", LIMIT_S)
        self.here = row.pop("here", False)
        self.covered_here = row.pop("covered_here", COVERED_MIN)
        if row:
            die("%s: unknown: %s" % (name, ", ".join(row)))


def read_rows():
    rows = []
    for path in sorted(glob.glob(ROWS + "/*.toml")):
        with open(path, "rb") as file:
            rows += [Row(name, row) for name, row in tomllib.load(file).items()]
    return rows


class Lane:
    def __init__(self, options, rows):
        self.options, self.rows = options, rows
        self.groups = Groups()
        self.deaths = Deaths()
        self.deaths.start()
        self.places = {}

    def covered(self, row):
        """The share of CPU time that has to be in profiles, or told."""
        return min(self.options.covered, row.covered_here) if self.options.here else self.options.covered

    def place(self, row):
        name = "here" if self.options.here else row.root
        if name not in self.places:
            path = None if name == "here" else os.path.join(BUILD, "roots", name)
            if path and not os.path.exists(path + "/etc/apt/sources.list"):
                make = "source test/common/roots.bash; roots_need; root_make '%s' '%s' '%s' ca-certificates" % (
                    name, path, os.path.join(BUILD, "archives"))
                os.makedirs(os.path.dirname(path), exist_ok=True)
                if subprocess.run(["bash", "-euc", make], cwd=ROOT).returncode:
                    die("no root of " + name)
            self.places[name] = Place(name, path, self.groups)
            # All at once, as apt takes seconds each time. Where one of them cannot be installed, each row says so for itself.
            self.places[name].install(sorted({p for r in self.rows if r.root == name for p in r.packages}))
        return self.places[name]

    def folder(self, place, row):
        return os.path.join(place.work, row.name)

    def prepare(self, place, row):
        """The row's folder, made once for each version of its preparation."""
        folder = self.folder(place, row)
        mark = folder + ".prepared"
        if os.path.exists(mark) and open(mark).read() == row.prepare:
            return
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        script = "set -eu; cd '%s/%s'; %s" % (place.inside_work, row.name, row.prepare)
        with open(os.path.join(place.work, "%s.log" % row.name), "wb") as log:
            if subprocess.run(place.command(script, True), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                              timeout=900).returncode:
                with open(log.name, errors="replace") as said:
                    raise RuntimeError("cannot be prepared: " + " / ".join(said.read().splitlines()[-4:]))
        with open(mark, "w") as file:
            file.write(row.prepare)

    def once(self, place, row, mode):
        """One run: what was printed, how it ended, and what was measured."""
        profiles = place.lane + "/profiles"
        shutil.rmtree(profiles, ignore_errors=True)
        os.mkdir(profiles)
        os.chmod(profiles, 0o777)
        variables = {}
        if MODES[mode] is not None:
            objects = [place.inside + "/libspanprof.so"]
            if "SPANPROF_ALLOC" in MODES[mode]:
                objects.append(place.inside + "/libspanprof-alloc.so")
            variables = {"LD_PRELOAD": ":".join(objects),
                         "SPANPROF_OUTPUT_DIR": place.inside + "/profiles",
                         "SPANPROF_STATUS_FILE": place.inside + "/profiles/status-%p", **ALWAYS, **MODES[mode]}
        with open(place.lane + "/variables", "w") as file:
            file.writelines("%s=%s\n" % item for item in variables.items())
        folder = place.inside_work + "/" + row.name
        # In memory: on a disk, files that the runs before have removed make new ones dear, by four times for rsync.
        outside = self.folder(place, row) + ".run"
        os.makedirs(outside, exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", outside], check=True)
        script = PRELUDE + COPY.format(folder) + row.run
        before = {kind: self.groups.cpu_s(kind) for kind in ("app", "exporter")}
        # Appended to: into another file the exporter writes no message.
        files = [tempfile.TemporaryFile("a+b", dir=BUILD) for _ in ("out", "err")]
        began = time.monotonic()
        process = subprocess.Popen(["sh", "-c", 'echo 0 >"$0"; exec "$@"', self.groups.path + "/script/cgroup.procs"] +
                                   place.command(script), stdin=subprocess.DEVNULL, stdout=files[0], stderr=files[1])
        self.deaths.watch(process.pid)
        ended = True
        try:
            status = process.wait(row.limit_s * self.options.patience)
        except subprocess.TimeoutExpired:
            status, ended = "timeout", False
        left = []
        if ended and not self.groups.empty("app", 3):
            left = self.groups.names("app")
        took = time.monotonic() - began
        result = {"mode": mode, "status": status, "left": left, "took_s": took,
                  "cpu_s": self.groups.cpu_s("app") - before["app"]}
        if not ended:
            result["stuck"] = self.groups.names("app")
        # An exporter ends after the last process of its family, so those that the script left go first.
        with open(os.path.join(self.groups.path, "app", "cgroup.kill"), "w") as file:
            file.write("1")
        result["exporter_late"] = not self.groups.empty("exporter", EXPORTER_S if ended else 5)
        result["exporter_s"] = self.groups.cpu_s("exporter") - before["exporter"]
        result["deaths"], result["deaths_unknown"] = self.deaths.taken()
        self.groups.kill()
        process.wait()
        subprocess.run(["umount", "-l", outside], check=True)
        texts = []
        for file in files:
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
            file.close()
        if variables:
            result["seen"], by_process = seen_in(profiles)
            statuses = judge.read_statuses(profiles)
            result["said"] = said_in(statuses)
            result["told"] = lambda ends: judge.explained_s(result["cpu_s"], statuses, by_process,
                                                            ends * result["cpu_s"])
            if self.options.keep:
                kept = os.path.join(BUILD, "kept", row.name, mode)
                shutil.rmtree(kept, ignore_errors=True)
                shutil.copytree(profiles, kept)
        texts[1] = re.sub(r"(?m)^spanprof\[\d+\]: .*\n", "", texts[1])
        if row.same:
            texts = [subprocess.run(["sed", "-E", row.same], input=text, capture_output=True, text=True,
                                    errors="replace", check=True).stdout for text in texts]
        result["out"], result["err"] = texts
        return result

    def judge(self, runs):
        """Sentences on runs that are not as those without the profiler."""
        plain = [run for run in runs if run["mode"] == "plain"]
        wrong, unstable = [], []
        for key in ("status", "out", "err", "left", "deaths"):
            allowed = [run[key] for run in plain]
            if any(value != allowed[0] for value in allowed):
                unstable.append(key)
            for run in runs:
                if run["mode"] == "plain" or run[key] in allowed:
                    continue
                if key in ("out", "err"):
                    lines = difflib.unified_diff(allowed[0].splitlines(), run[key].splitlines(), "plain", run["mode"],
                                                 lineterm="", n=0)
                    wrong.append("%s: %s: %s" % (run["mode"], key, " / ".join(list(lines)[2:12])[:600]))
                else:
                    wrong.append("%s: %s: %s, not %s" % (run["mode"], key, run[key], allowed[0]))
        for run in runs:
            if run["exporter_late"]:
                wrong.append("%s: the exporter did not end" % run["mode"])
            if run["mode"] != "plain" and run["exporter_s"] == 0 and run["cpu_s"] > 0.1:
                wrong.append("%s: no exporter in its cgroup" % run["mode"])
            if run["mode"] != "plain" and not run["seen"] and run["cpu_s"] > 0.1:
                wrong.append("%s: no profile" % run["mode"])
        return wrong, unstable

    def ends_of(self, place, row):
        """The kernel's ends of the row's processes, and the profiler's own in its cgroup: their share of its CPU time, in a
        run that is traced."""
        path = place.lane + "/ends"
        with open(path, "w"):
            os.chmod(path, 0o666)
        run = self.once(place, row, "100")
        time.sleep(0.3)
        with open(path) as file:
            ends = sum(map(float, file))
        os.unlink(path)
        return ends / max(run["cpu_s"], 1e-9)

    def row(self, row):
        place = self.place(row)
        if not place.install(row.packages):
            raise RuntimeError("its packages cannot be installed")
        self.prepare(place, row)
        runs = []
        modes = list(self.options.modes)
        # The first run reads files that no later run has to read.
        first = self.once(place, row, "plain") if self.options.rounds > 1 or self.options.show else None
        if self.options.show:
            print("%s: status %s after %.1f s, %.2f s of CPU time\n%s%s" % (
                row.name, first["status"], first["took_s"], first["cpu_s"], first["out"], first["err"]), flush=True)
            return None
        for number in range(self.options.rounds):
            order = modes[number % len(modes):] + modes[:number % len(modes)]
            for mode in order:
                runs.append(self.once(place, row, mode))
        if any(r["mode"] == "plain" and r["status"] == "timeout" for r in runs):
            raise RuntimeError("without the profiler it did not end within %d s" % (row.limit_s * self.options.patience))
        wrong, unstable = self.judge(runs)
        result = {"name": row.name, "title": row.title, "root": place.name, "version": place.version(row.package),
                  "head": self.options.head, "runs": len(runs), "wrong": wrong, "unstable": unstable,
                  "plain_s": statistics.median(r["cpu_s"] for r in runs if r["mode"] == "plain"), "modes": {}}
        for mode in modes:
            of_mode = [r for r in runs if r["mode"] == mode]
            if mode == "plain":
                continue
            seen, said = collections.Counter(), collections.Counter()
            for run in of_mode:
                seen.update(run["seen"])
                said.update(dict(run["said"]))
            cpu = sum(r["cpu_s"] for r in of_mode)
            result["modes"][mode] = {
                "ratio": statistics.median(r["cpu_s"] for r in of_mode) / max(result["plain_s"], 1e-9),
                "cpu_s": cpu, "exporter_s": sum(r["exporter_s"] for r in of_mode), "seen": dict(seen),
                "covered": seen["s"] / max(cpu, 1e-9),
                "explained": 0, "said": said.most_common()}

        def explain(ends):
            for mode, value in result["modes"].items():
                value["explained"] = sum(r["told"](ends) for r in runs if r["mode"] == mode) / max(value["cpu_s"], 1e-9)

        explain(0)
        result["ends"] = 0
        if is_bad(result, self.covered(row)):
            result["ends"] = self.ends_of(place, row)
            explain(result["ends"])
        return result


def share(part, whole):
    return "%.1f %%" % (100 * part / whole) if whole else "–"


def is_bad(result, covered):
    """Different, or CPU time is missing and no sentence of the profiler tells it."""
    return bool(result.get("failed") or result["wrong"] or
                any(m["covered"] + m["explained"] < covered for m in result["modes"].values()))


def worst_of(result):
    """The mode with the least in profiles, and its name."""
    return min(result["modes"].items(), key=lambda item: item[1]["covered"])


def what_is_said(mode):
    said = "; ".join("%s (%.2f s in all)" % (text.partition(": ")[0], s) for text, s in mode["said"][:4])
    return "%s in profiles, %s told: %s" % (share(mode["covered"], 1), share(mode["explained"], 1), said or "nothing is said")


def ends_said(result):
    """Where it was measured."""
    return "measured by a tracer, the kernel's ends of its processes and the profiler's keepers: %s" % share(result["ends"], 1)


def line_of(result):
    modes = result["modes"]
    seen = collections.Counter()
    for mode in modes.values():
        seen.update(mode["seen"])
    sampled = seen["s"] - seen["unsampled_s"]
    ratios = " | ".join("%.2f" % modes[m]["ratio"] if m in modes else "–" for m in ("100", "1000", "100-all", "1000-all"))
    worst = worst_of(result)[1]
    return "| %s | %s | %s | %d | %s | %.2f | %s | %s | %s | %s | %s | %s | %s |" % (
        result["title"], result["version"] or "?", result["root"], result["runs"],
        "**%d**" % len(result["wrong"]) if result["wrong"] else "0", result["plain_s"],
        share(worst["covered"], 1), share(worst["explained"], 1), share(seen["unsampled_s"], seen["s"]), share(seen["hex"], seen["frames"]),
        share(seen["made"], seen["frames"]), share(seen["incomplete_s"], sampled), ratios)


def kept_of(title, lines):
    """What README.md says of a row that did not run here: its line, and what stands below the table."""
    row = [line for line in lines if line.startswith("| %s |" % title)]
    note = [line for line in lines if line.startswith("- **%s** " % title)]
    return row[:1], note[:1]


def note_of(result):
    name, worst = worst_of(result)
    sentences = result["wrong"][:2]
    if worst["covered"] < COVERED_MIN:
        sentences.append(what_is_said(worst))
    if result.get("ends"):
        sentences.append(ends_said(result))
    return ["- **%s** (%s): %s" % (result["title"], name, ". ".join(sentences))] if sentences else []


def table():
    with open(README) as file:
        before = file.read().split("<!-- programs:begin -->\n")[1].split("<!-- programs:end -->")[0].splitlines()
    rows, notes, heads = [], [], set()
    for row in read_rows():
        path = os.path.join(RESULTS, row.name + ".json")
        row_of, note = kept_of(row.title, before)
        if os.path.exists(path):
            with open(path) as file:
                result = json.load(file)
            if not result.get("failed"):
                row_of, note = [line_of(result)], note_of(result)
                heads.add(result["head"])
        rows += row_of
        notes += note
    runs = sum(int(row.split(" | ")[3]) for row in rows)
    heads.update(*(re.findall(r"\b[0-9a-f]{8}\b", line) for line in before if re.match(r"\d+ programs, ", line)))
    lines = ["| program | version | root | runs | different | CPU s | in profiles | told | unsampled | hex | generated "
             "| incomplete | 100 Hz | 1,000 Hz | 100 Hz, all | 1,000 Hz, all |", "|" + "---|" * 16, *rows, "",
             "%d programs, %d runs, at %s." % (len(rows), runs, ", ".join(sorted(heads)))]
    for note in notes:
        lines += ["", note]
    with open(BUILD + "/table", "w") as file:
        file.write("\n".join(lines) + "\n")
    with open(README) as file:
        done = subprocess.run(["awk", "-v", "marker=programs", "-v", "file=" + BUILD + "/table", "-f",
                               ROOT + "/scripts/between.awk", README], capture_output=True, text=True, check=True)
    with open(README, "w") as file:
        file.write(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--covered", type=float, default=COVERED_MIN)
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--here", action="store_true")
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    os.makedirs(RESULTS, exist_ok=True)
    if options.table:
        return table()
    if os.geteuid() != 0:
        print("needs root for roots, cgroups and process events")
        sys.exit(77)
    if not options.inside:
        # Mounts end with the namespace.
        os.execvp("unshare", ["unshare", "--mount", "--propagation", "private", sys.executable, *sys.argv, "--inside"])
    # Told to end, it ends what it has started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))
    options.modes = options.modes.split(",")
    options.patience = int(os.environ.get("TEST_PATIENCE") or 1)
    options.head = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short=8", "HEAD"], capture_output=True,
                                  text=True).stdout.strip()
    rows = read_rows()
    names = [name for name in options.only.split(",") if name]
    unknown = set(names) - set(row.name for row in rows)
    if unknown:
        die("no such row: " + ", ".join(sorted(unknown)))
    rows = [row for row in rows if (row.name in names if names else row.here or not options.here)]
    try:
        lane = Lane(options, rows)
    except (OSError, subprocess.CalledProcessError) as error:
        print("no cgroups or process events here: %s" % error)
        sys.exit(77)
    bad = 0
    try:
        for row in rows:
            path = os.path.join(RESULTS, row.name + ".json")
            if options.resume and os.path.exists(path):
                with open(path) as file:
                    if json.load(file).get("head") == options.head:
                        continue
            began = time.monotonic()
            try:
                result = lane.row(row)
            except (RuntimeError, subprocess.SubprocessError, OSError) as error:
                result = {"name": row.name, "failed": str(error), "head": options.head}
                print("%s: FAIL: %s" % (row.name, error), flush=True)
                bad += 1
            if result is None:
                continue
            if not result.get("failed"):
                bad += is_bad(result, lane.covered(row))
                print(line_of(result), "(%.0f s)" % (time.monotonic() - began), flush=True)
                for text in result["wrong"] + ["unstable: " + what for what in result["unstable"]]:
                    print("    " + text)
                if worst_of(result)[1]["covered"] < lane.covered(row):
                    for mode, value in result["modes"].items():
                        print("    %s: %s" % (mode, what_is_said(value)))
                if result["ends"]:
                    print("    " + ends_said(result))
                sys.stdout.flush()
            if not options.here:
                with open(path, "w") as file:
                    json.dump(result, file, indent=1)
    finally:
        lane.groups.kill()
        for place in lane.places.values():
            place.remove()
        lane.groups.remove()
    print("%d rows, %d bad" % (len(rows), bad))
    sys.exit(bad != 0)


if __name__ == "__main__":
    main()
