# SPDX-License-Identifier: Apache-2.0
"""Runs the conformance matrix that matrix.conf describes: every story with every SDK, loaded in
every way, under the profiler and without it.

  matrix.py run SO RESULTS [CONF PROGRAMS]    prints the matrix; fails if a cell fails, or if the
                              self-check fails, which runs only without CONF
  matrix.py readme RESULTS    prints the same as the tables of test/conformance/README.md
  matrix.py promised RESULTS    the same; pairs that did not run get the results that the others of their SDK, and
                              matrix.conf, predict
  matrix.py ways RESULTS CONF VERSION    prints one table: ways of loading, and the stories proven
  matrix.py ways-in FILE CONF    FILE has a row for each way of CONF
  matrix.py told FOLDER STDERR work|samples    a story ran with such pieces: its profile has the program's
                              CPU time, by span and by value

A cell is proven if each sample in the story had the right label, each exported span has the right attribute, and
neither the host nor its SDK noticed the profiler: same output, same end, same calls as without it.
"""
import collections
import concurrent.futures
import contextlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
CONF = os.path.join(HERE, "matrix.conf")
BUILD = os.path.join("build", "test", "conformance")
LIMIT_S = 120 * int(os.environ.get("TEST_PATIENCE", "1"))
EMULATOR = os.environ.get("TEST_EMULATOR", "").split()
# Three samples are a piece, if samples are taken in place of work.
SAMPLE_MS = 1000
# A piece of work begins and ends between two samples, and a CPU clock's timer fires at a tick. An emulator translates
# code on the thread that runs it.
SLACK_MS = 60 if EMULATOR else 40
# The work of a story between its pieces belongs to no span, too. A label that is lost there is missing in its span,
# which gets no more slack for this.
OUTSIDE_MS = 120
SLACK_SHARE = 0.08
# In this story chance decides which span belongs to which thread, and which comes first.
AT_ONCE = "first spans at once"
# Threads wait 50 ms for the one that starts the profiler. On a machine with slower starts, their first spans are
# counted as lost and have no labels. This is a regular expression for that message; without it nothing may be lost.
TOLD = os.environ.get("MATRIX_TOLD", "")
# The label and the attributes are missing if the profiler did not see a span. A wrong one has another message.
MISSING = re.compile(r" line \d+: (no label), not \"[^\"]*\";| span [^;]* has (the profile id) \"\";"
                     r"| span [^;]* lacks (a CPU time);")
# The number of pairs of SDK and way to run, at least one with each SDK, and one with each way; without it all of
# them.
PAIRS = os.environ.get("MATRIX_PAIRS", "all")
SEED = os.environ.get("MATRIX_SEED") or str(random.SystemRandom().randrange(10**6))
# The calls that we may make to a C SDK, and their results.
OURS = re.compile(
    r"ours (get_context \d+ -> [037]"
    r"|context_(trace_id|span_id|flags) [0-9a-f]{16} -> 0|span_context_destroy [0-9a-f]{16}"
    r"|context_span_context ([0-9a-f]{16}|-)|context_current -> ([0-9a-f]{16}|-)"
    r"|context_destroy ([0-9a-f]{16}|-)|last_error_message -> .*|set_last_error .*|clear_last_error"
    r"|set_string_attribute \d+ pyroscope\.profile\.(id|url|baseline\.url) -> 0"
    r"|set_int64_attribute \d+ spanprof\.cpu_time_ns -> 0)")

# The environment, and what the stories expect with it. Own id and root's name, or the other way round, so that one
# run shows both.
OWN_IDS = ("ids=all names=root", {"SPANPROF_SPAN_ID_SCOPE": "all",
                                  "SPANPROF_SPAN_NAME_SCOPE": "root"})
ROOT_IDS = ("ids=root names=all", {"SPANPROF_SPAN_ID_SCOPE": "root",
                                   "SPANPROF_SPAN_NAME_SCOPE": "all"})


class Conf:
    def __init__(self, path=CONF, programs=BUILD):
        self.path, self.programs = path, programs
        self.sdks, self.modes, self.second = {}, {}, {}
        self.exception, self.reasons, self.lacks, self.mute = {}, {}, {}, {}
        with open(path, encoding="utf-8") as file:
            for line in file:
                words = line.split("#")[0].split()
                if words:
                    getattr(self, "take_" + words[0])(*words[1:])

    def take_sdk(self, key, *title):
        self.sdks[key] = " ".join(title)

    def take_mode(self, key, letter, *title):
        self.modes[key] = (letter, " ".join(title))

    def take_second(self, sdk, other):
        self.second[sdk] = other

    def take_unseen(self, mode, *words):
        for sdk in words[:-1]:
            self.exception[sdk, mode] = ("unseen", words[-1])

    def take_absent(self, mode, *words):
        for sdk in words[:-1]:
            self.exception[sdk, mode] = ("absent", words[-1])

    def take_lacks(self, mode, sdk, reason, *story):
        self.lacks[" ".join(story), sdk, mode] = reason

    def take_mute(self, mode, sdk, reason, *story):
        self.mute[" ".join(story), sdk, mode] = reason

    def take_reason(self, key, *text):
        self.reasons[key] = " ".join(text)


def command(conf, sdk, mode):
    """How the host of that SDK is started in that mode, and the additional variables."""
    def of(name, which=sdk):
        return os.path.join(conf.programs, which, name)

    opener = os.path.join(conf.programs, "opener")
    first = [opener, "--open", "local", "--plugin", of("plugin.so")]
    if conf.exception.get((sdk, "local"), ("seen",))[0] != "seen":
        first = [of("lazy")]
    known = {
        "lazy": [of("lazy")],
        "now": [of("now")],
        "noplt": [of("noplt")],
        "root": [of("lazy")],
        "local": [opener, "--open", "local", "--plugin", of("plugin.so")],
        "global": [opener, "--open", "global", "--plugin", of("plugin.so")],
        "inside": [opener, "--open", "local", "--plugin", of("inside.so")],
        "hidden": [opener, "--open", "local", "--plugin", of("hidden.so")],
        "static": [of("static")],
        "nopie": [of("nopie")],
        "own": [of("static"), "--second", of("plugin.so", "debian")],
        "dlsym_on": [opener, "--open", "local", "--plugin", of("byname.so")],
        "deepbind": [opener, "--open", "deepbind", "--plugin", of("plugin.so")],
        "dlsym": [opener, "--open", "local", "--plugin", of("byname.so")],
        "late": [opener, "--late", "--open", "local", "--plugin", of("plugin.so")],
        "second": first + ["--second", of("plugin.so", conf.second.get(sdk, sdk))],
    }
    if mode.startswith("plugin_"):
        return [opener, "--open", "local", "--plugin", of(mode + ".so")]
    return known.get(mode, [of(mode)])


# Variables for the program itself, with us and without.
HOST_ENV = {"now": {"FIXTURE_ERRNO": "4711"}}
MODE_ENV = {
    "root": {"SPANPROF_SPAN_CPU_TIME": "true"},
    "late": {"SPANPROF_PROFILE": "always"},
    "dlsym_on": {"SPANPROF_HOOK_DLSYM": "true"},
}


def clean_environment():
    foreign = ("SPANPROF_", "PYROSCOPE_", "OTEL_", "OTELC_", "FIXTURE_", "LD_PRELOAD")
    env = {k: v for k, v in os.environ.items()
           if not k.startswith(foreign)}
    env["LC_ALL"] = "C"
    return env


def launched(argv, env):
    """Command and environment. An emulator (see test/aarch64) takes the program's variables as options."""
    if not EMULATOR:
        return argv, env
    options = [word for k, v in env.items() if os.environ.get(k) != v for word in ("-E", k + "=" + v)]
    return EMULATOR + options + argv, {k: v for k, v in env.items() if os.environ.get(k) == v}


@contextlib.contextmanager
def folder_for_exporter():
    """Like TemporaryDirectory, but an exporter whose host is gone may still be writing there, below "profiles": it
    makes that folder again, but not the one above."""
    folder = tempfile.mkdtemp(prefix="spanprof-matrix.")
    os.mkdir(os.path.join(folder, "profiles"))
    try:
        yield folder
    finally:
        for _ in range(200):
            shutil.rmtree(folder, ignore_errors=True)
            if not os.path.exists(folder):
                break
            time.sleep(0.05)


def run_host(argv, env):
    """Runs every story once: the host's output, and the verdicts."""
    with folder_for_exporter() as folder:
        if "LD_PRELOAD" in env:
            env["SPANPROF_OUTPUT_DIR"] = os.path.join(folder, "profiles")
            # Stories check the attributes of spans without samples, too.
            env.setdefault("SPANPROF_ATTRIBUTES", "always")
        argv, env = launched(argv, env)
        done = subprocess.run(["timeout", "--kill-after=5", str(LIMIT_S)] + argv + [folder],
                              env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              errors="replace", check=False)
        verdicts = {}
        path = os.path.join(folder, "verdicts")
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                for line in file:
                    kind, rest = line.rstrip("\n").split(" ", 1)
                    story, detail = rest.split(":", 1)
                    verdicts[story] = (kind, detail.strip())
        calls, story_of = {}, {}
        for name in os.listdir(folder):
            if name.startswith("spans."):
                _, pid, story = name.split(".", 2)
                story_of[pid] = story
            if name.startswith("calls."):
                with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
                    calls[name[len("calls."):]] = file.read().splitlines()
    # The profiler's messages are removed; the rest is the host's.
    stderr = [x for x in done.stderr.splitlines() if not x.startswith("spanprof[")]
    lost = told_losses(done.stderr.splitlines(), story_of)
    return done.returncode, done.stdout, "\n".join(stderr), verdicts, calls, lost


def told_losses(lines, story_of):
    """How many spans each story lost, by the profiler's message: {story: count}."""
    lost = collections.Counter()
    for line in lines:
        said = re.match(r"spanprof\[(\d+)\]: lost since the last push: (\d+) (?:%s)" % TOLD, line) if TOLD else None
        if said and said[1] in story_of:
            lost[story_of[said[1]]] += int(said[2])
    return lost


def only_lost(detail, count):
    """Whether the only fault is that at most this many labels and attributes are missing."""
    missing = collections.Counter(found[found.lastindex] for found in MISSING.finditer(detail))
    return MISSING.sub("", " " + detail).strip() == "" and max(missing.values(), default=0) <= count


def sections(stdout):
    """The output of each story."""
    out, name = {}, None
    for line in stdout.splitlines():
        if line.startswith("== "):
            name = line[3:]
            out[name] = []
        elif name is not None:
            out[name].append(line)
    return out


def judge(with_us, without):
    """One verdict per story from the two runs."""
    _, out_with, err_with, verdicts, calls_with, lost = with_us
    _, out_without, err_without, bare, calls_without, _ = without
    shown, alone = sections(out_with), sections(out_without)
    cells = {}
    for story in alone:
        kind, detail = verdicts.get(story, ("fail", "no verdict: " + err_with[-300:]))
        if kind == "silent":
            kind, detail = "fail", "the profiler was not there"
        if kind == "fail" and story == AT_ONCE and only_lost(detail, lost[story]):
            kind, detail = "ok", "lost %d" % lost[story]
        if bare.get(story, ("none",))[0] not in ("silent", "na"):
            kind, detail = "fail", "without the profiler: " + err_without[-300:]
        if shown.get(story) != alone[story]:
            kind, detail = "fail", detail + " the host noticed: " + difference(
                alone[story], shown.get(story, []))
        wrong = wrong_calls(story, calls_with.get(story, []), calls_without.get(story, []))
        if wrong:
            kind, detail = "fail", detail + wrong
        cells[story] = (kind, detail)
    if with_us[0] != without[0] or err_with != err_without:
        cells = {s: ("fail", "the host ended %d, not %d: %s" % (
            with_us[0], without[0], err_with[-300:])) for s in alone or ["(no story)"]}
    return cells


def wrong_calls(story, under, plain):
    """Each call of the host reaches its SDK once, unchanged; our calls ask for ids and set attributes, and release
    what they got."""
    hosts = [line for line in under if not line.startswith("ours ")]
    if story == AT_ONCE:
        hosts, plain = (sorted(re.sub(r"\d+", "N", line) for line in lines) for lines in (hosts, plain))
    if hosts != plain:
        return " other calls of the host's: " + difference(plain, hosts)
    ours = [line for line in under if line.startswith("ours ")]
    odd = [line for line in ours if not OURS.fullmatch(line)]
    if odd:
        return " a call that nobody asked for: " + odd[0]

    def count(pattern):
        return sum(re.match("ours (%s)" % pattern, line) is not None for line in ours)

    if count(r"get_context \d+ -> 0|context_span_context [0-9a-f]{16}") != count("span_context_destroy"):
        return " a context was not given back"
    if count("context_current") != count("context_destroy"):
        return " the current context was not given back"
    return ""


def difference(expected, found):
    for i, line in enumerate(expected):
        if i >= len(found) or found[i] != line:
            return '"%s" for "%s"' % (found[i] if i < len(found) else "", line)
    return "more lines"


def run_cell(conf, so, sdk, mode, labels=None, more=None, preload=True):
    """All stories of one SDK in one mode. labels, more and preload seed faults."""
    expected, scopes = ROOT_IDS if mode == "root" else OWN_IDS
    kind, _ = conf.exception.get((sdk, mode), ("seen", None))
    argv = command(conf, sdk, mode)
    env = clean_environment()
    env.update(HOST_ENV.get(mode, {}))
    without = run_host(argv, dict(env))
    env.update(scopes)
    env.update(MODE_ENV.get(mode, {}))
    env.update(more or {})
    # Losses are reported at the end, if the host waits for it.
    env["SPANPROF_FLUSH_TIMEOUT"] = "30s" if TOLD else "0"
    env["CONFORMANCE_LABELS"] = labels or ("unseen" if kind == "unseen" else expected)
    if preload:
        env["LD_PRELOAD"] = so
    return judge(run_host(argv, env), without)


def self_check(conf, so):
    """Each kind of fault really makes cells fail."""
    wrong = []

    def must_fail(what, story, **fault):
        sdk = fault.pop("sdk", "otelc")
        cells = run_cell(conf, so, sdk, fault.pop("mode", "lazy"), **fault)
        if cells.get(story, ("fail",))[0] != "fail":
            wrong.append(what)

    must_fail("another span's id", "nested", more={"SPANPROF_SPAN_ID_SCOPE": "root"})
    must_fail("another span's name", "nested", more={"SPANPROF_SPAN_NAME_SCOPE": "all"})
    must_fail("no trace id", "single", more={"SPANPROF_TRACE_ID": "false"})
    must_fail("no attribute", "single", more={"SPANPROF_ATTRIBUTES": "never"})
    must_fail("a profiler that does nothing", "single", more={"SPANPROF_DISABLED": "true"})
    must_fail("no profiler", "single", preload=False)
    must_fail("a label where none is expected", "single", labels="unseen")
    must_fail("spans that are not seen", "single", mode="hidden", labels=OWN_IDS[0])
    told, end = "== s\nstart a\n", "status 700\n"
    for what, other, calls in (("another line", "== s\nstart b\n" + end, []),
                               ("another end", told + "status 6\n", []),
                               ("a call that is lost", told + end, ["end 1 -> 0"]),
                               ("a call too many", told + end, ["start -> 1", "end 1 -> 0", "end 1 -> 0"]),
                               ("a call of ours", told + end, ["start -> 1", "end 1 -> 0", "ours end 1 -> 0"]),
                               ("a context that is kept", told + end,
                                ["start -> 1", "ours get_context 1 -> 0", "end 1 -> 0"])):
        plain = ["start -> 1", "end 1 -> 0"] if calls else []
        if judge((0, other, "", {"s": ("ok", "")}, {"s": calls}, collections.Counter()),
                 (0, told + end, "", {"s": ("silent", "")}, {"s": plain}, {}))["s"][0] != "fail":
            wrong.append(what)
    gone = 'line 7: no label, not "a"; span a has the profile id "";'
    for what, story, detail, lost, verdict in (
            ("a loss that is not told", AT_ONCE, gone, 0, "fail"),
            ("more lost than told", AT_ONCE, gone + " " + gone, 1, "fail"),
            ("a loss in another story", "nested", gone, 1, "fail"),
            ("a wrong label beside a loss", AT_ONCE, gone + ' line 7: name "b", not "a";', 9, "fail"),
            ("half a label beside a loss", AT_ONCE, gone + ' line 7: not the id of "a";', 9, "fail"),
            ("another span's attribute beside a loss", AT_ONCE, gone + ' span a has the profile id "12";', 9, "fail"),
            ("a loss that is told fails, which", AT_ONCE, gone, 1, "ok")):
        if judge((0, "== %s\n" % story, "", {story: ("fail", detail)}, {}, collections.Counter({story: lost})),
                 (0, "== %s\n" % story, "", {story: ("silent", "")}, {}, {}))[story][0] != verdict:
            wrong.append(what)
    for what, label in (("another span's time", ("1" * 16, "1" * 32, "a")), ("time without a label", ("", "", ""))):
        report = {"spans": [dict(zip(("span_id", "trace_id", "span_name"), label), ns=100e6, samples=9)],
                  "total": {"ns": 100e6}, "labelled": {"ns": 100e6 if label[0] else 0}}
        if not wrong_times({("2" * 16, "2" * 32, "a"): [100e6]}, report):
            wrong.append(what)
    return wrong


# --- Work ---


def slack(pieces, kind):
    """Milliseconds by which the CPU time of these pieces may be wrong."""
    if kind == "samples":
        return 1.1 * SAMPLE_MS
    return SLACK_MS * max(1, len(pieces)) ** 0.5 + SLACK_SHARE * sum(pieces) / 1e6


def wrong_times(wanted, report, kind="work"):
    """Whether the CPU time of a span, or outside of spans, differs from the program's measurement: {label:
    [nanoseconds]}."""
    got = {s["span_id"]: s["ns"] for s in report["spans"] if s["span_id"]}
    got["-"] = report["total"]["ns"] - report["labelled"]["ns"]
    pieces = collections.defaultdict(list)
    for (span, _, _), work_ns in wanted.items():
        pieces[span] += work_ns
    for span in set(got) | set(pieces):
        off_ms = (got.get(span, 0) - sum(pieces[span])) / 1e6
        slack_ms = slack(pieces[span], kind)
        if span == "-" and off_ms > 0 and kind == "work":
            slack_ms += OUTSIDE_MS
        if abs(off_ms) > slack_ms:
            return "%s has %+.1f ms; " % (span, off_ms)
    known = set(wanted)
    worked = {span for span, _, _ in wanted}
    strange = [s for s in report["spans"] if s["span_id"] in worked and
               (s["span_id"], s["trace_id"], s["span_name"]) not in known]
    return "a label %s; " % strange if strange else ""


def wrong_values(values, report, kind):
    """As wrong_times(), for the values of an attribute: {text: [nanoseconds]}."""
    got = {v["value"]: v["ns"] for v in report.get("values", [])}
    # A span without pieces of work may still have a sample of its own calls.
    for value in set(got) | set(values):
        pieces = values.get(value, [])
        off_ms = (got.get(value, 0) - sum(pieces)) / 1e6
        if abs(off_ms) > slack(pieces, kind):
            return "value %s has %+.1f ms; " % (value, off_ms)
    return ""


def wrong_marks(exported, report):
    """The spans with samples in the profile have a link to it, and no others."""
    # The rest of a thread's CPU time is no sample, and is recorded after the span's end.
    sampled = {s["span_id"] for s in report["spans"] if s["samples"]} & {s["span_id"] for s in exported}
    marked = {s["span_id"] for s in exported if s["attributes"].get("pyroscope.profile.id") == s["span_id"]}
    own = {s["span_id"] for s in exported if s["attributes"].get("pyroscope.profile.id", s["span_id"]) != s["span_id"]}
    return "" if marked == sampled - own else "marked %s, sampled %s" % (sorted(marked), sorted(sampled))


def wrong_failures(failed, folder):
    """Of each name the slowest root is listed, and each root of a story that fails has a name of its own. The list says
    error of those that failed, and of no others."""
    listed = set()
    for name in os.listdir(folder):
        for line in lines_of(os.path.join(folder, name)) if name.endswith("-slow.otlp.jsonl") else ():
            for span in json.loads(line)["resourceSpans"][0]["scopeSpans"][0]["spans"]:
                if span.get("status", {}).get("code") == 2:
                    listed.add(span["spanId"])
    return "" if listed == failed else "listed as failed %s, failed %s" % (sorted(listed), sorted(failed))


def lines_of(path):
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return file.read().splitlines()


def told(folder, stderr, kind):
    """The faults of a story that was run with work: its verdict, the profiler's messages, and the profile."""
    verdict = lines_of(os.path.join(folder, "verdicts"))
    if not verdict or not verdict[0].startswith("ok "):
        return "the verdict is %s" % verdict
    wanted, values, messages, failed = collections.defaultdict(list), collections.defaultdict(list), [], set()
    for line in lines_of(os.path.join(folder, "work")):
        words = line.split(" ", 3)
        if words[0] == "says":
            messages.append(line[len("says "):])
        elif words[0] == "value":
            values[line.split(" ", 2)[2]].append(int(words[1]))
        elif words[0] == "failed":
            failed.add(words[1])
        else:
            wanted[words[0], words[1], words[3]].append(int(words[2]))
    said = [line for line in lines_of(stderr) if line.startswith("spanprof[")]
    if len(said) != len(messages) or not all(m in s for m, s in zip(messages, said)):
        return "the profiler says %s, and not %s" % (said, messages)
    exported = [json.loads(line) for line in lines_of(os.path.join(folder, "spans"))]
    if not any(name.endswith(".pb.gz") for name in os.listdir(folder)):
        return "no profile" if exported else ""
    if not exported:
        return "a profile without a recorded span"
    by = ["--by", "test.value"] if values else []
    report = json.loads(subprocess.run(["build/spanprof-report", "--json"] + by + [folder], capture_output=True,
                                       text=True, check=True).stdout)
    return (wrong_times(wanted, report, kind) + wrong_values(values, report, kind) + wrong_marks(exported, report) +
            wrong_failures(failed, folder))


NO_LABEL = re.compile(r'( *line \d+: no label, not "[^"]*";)*')
SYMBOL = {"ok": "+", "unseen": "0", "na": ".", "absent": " ", "not run": "-", "fail": "F"}


def drawn(pairs, count, seed):
    """This many random pairs, and a few more if an SDK or a way would not occur otherwise."""
    chance = random.Random(seed)
    left, taken, lacks = list(pairs), [], {x for p in pairs for x in (("sdk", p[0]), ("mode", p[1]))}
    chance.shuffle(left)
    while left and (lacks or len(taken) < count):
        new = [{("sdk", s), ("mode", m)} & lacks for s, m in left]
        best = max(range(len(left)), key=lambda i: len(new[i]))
        lacks -= new[best]
        taken.append(left.pop(best))
    return taken


def run(so, conf):
    every = [(s, m) for s in conf.sdks for m in conf.modes
             if conf.exception.get((s, m), ("",))[0] != "absent"]
    pairs = every if PAIRS == "all" or conf.path != CONF else drawn(every, int(PAIRS), SEED)
    if len(pairs) < len(every):
        print("%d of %d pairs of SDK and way, drawn with MATRIX_SEED=%s" % (len(pairs), len(every), SEED), flush=True)
    finished = []

    def run_pair(sdk, mode):
        cells = run_cell(conf, so, sdk, mode)
        finished.append((sdk, mode))
        print("%d of %d: %s %s, %d stories, %d failed%s" % (
            len(finished), len(pairs), sdk, mode, len(cells), sum(kind == "fail" for kind, _ in cells.values()),
            "".join(", " + detail for kind, detail in cells.values() if kind == "ok" and detail)), flush=True)
        return cells

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        jobs = {p: pool.submit(run_pair, *p) for p in pairs}
        check = pool.submit(self_check, conf, so) if conf.path == CONF else None
        cells = {p: job.result() for p, job in jobs.items()}
        wrong = check.result() if check else []
    stories = list(cells[pairs[0]])
    result = {}
    for story in stories:
        for sdk in conf.sdks:
            for mode in conf.modes:
                kind, why = conf.exception.get((sdk, mode), ("seen", ""))
                verdict, detail = cells.get((sdk, mode), {}).get(story, ("fail", "not told"))
                if kind == "absent":
                    verdict, detail = "absent", why
                elif (sdk, mode) not in cells:
                    verdict, detail = "not run", ""
                elif (story, sdk, mode) in conf.lacks:
                    verdict, detail = "na", conf.lacks[story, sdk, mode]
                elif (story, sdk, mode) in conf.mute and NO_LABEL.fullmatch(detail):
                    verdict, detail = "unseen", conf.mute[story, sdk, mode]
                elif kind == "unseen" and verdict == "ok":
                    verdict, detail = "unseen", why
                result["%s|%s|%s" % (story, sdk, mode)] = [verdict, detail]
    return stories, result, wrong


def show(conf, stories, result):
    sdks = list(conf.sdks)
    width = max(max(len(conf.sdks[s]) for s in sdks), len(conf.modes)) + 1
    first = max(len(s) for s in stories) + 2
    print("conformance: one character per way of loading")
    for letter, title in conf.modes.values():
        print("  %s  %s" % (letter, title))
    print("  + labels and attributes proven   0 proven not to be seen, and unharmed   "
          ". no such operation   - not run   F failed\n")
    print(" " * first + "".join(conf.sdks[s].ljust(width) for s in sdks).rstrip())
    letters = "".join(letter for letter, _ in conf.modes.values())
    print(" " * first + "".join(letters.ljust(width) for _ in sdks).rstrip())
    for story in stories:
        row = ["".join(SYMBOL[result["%s|%s|%s" % (story, s, m)][0]] for m in conf.modes)
               for s in sdks]
        print(story.ljust(first) + "".join(r.ljust(width) for r in row).rstrip())


def check_reasons(conf, result):
    unknown = {d for v, d in result.values() if v in ("na", "absent", "unseen")} - set(conf.reasons)
    if unknown:
        sys.exit("matrix.conf has no reason %s" % ", ".join(sorted(unknown)))


def table(head, rows):
    print("| " + " | ".join(head) + " |")
    print("|---" * len(head) + "|")
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print()


def quoted(title):
    return title.replace("-Bsymbolic", "`-Bsymbolic`")


def shorter(names, everything, word):
    """The names of a set, in the order of everything, or the missing names if these are fewer."""
    missing = [n for n in everything if n not in names]
    if not missing:
        return "all " + word
    if len(missing) < len(names):
        return "all %s but %s" % (word, ", ".join("*%s*" % n for n in missing))
    return ", ".join("*%s*" % n for n in everything if n in names)


def family(titles):
    """The same, with one word for all SDKs of one wrapper."""
    return titles.replace("*haproxy 2.2*, *haproxy 3.3*, *haproxy 3.3, shared SDK*", "all *haproxy*")


def not_proven(conf, stories, result):
    """Lines with each reason once: the SDKs, and their stories or ways, to which it applies."""
    told = {}
    for cell, (verdict, why) in result.items():
        if verdict not in ("ok", "fail"):
            story, sdk, mode = cell.split("|")
            what = story if verdict == "na" else conf.modes[mode][0]
            told.setdefault((why, verdict), {}).setdefault(quoted(conf.sdks[sdk]), set()).add(what)
    titles = [quoted(t) for t in conf.sdks.values()]
    letters = [letter for letter, _ in conf.modes.values()]
    kinds = (("na", "without ", stories, "stories"), ("absent", "not built as ", letters, "ways"),
             ("unseen", "not seen as ", letters, "ways"))
    for why in conf.reasons:
        for verdict, start, everything, word in kinds:
            sets = {}
            for sdk, whats in told.get((why, verdict), {}).items():
                sets.setdefault(frozenset(whats), set()).add(sdk)
            for whats, sdks in sets.items():
                yield "- %s %s%s: %s" % (family(shorter(sdks, titles, "SDKs")), start,
                                          shorter(whats, everything, word), conf.reasons[why])


def readme(conf, stories, result):
    check_reasons(conf, result)
    print("%d stories, whose names `opener --list` prints.\n" % len(stories))
    print("%d ways of loading:\n" % len(conf.modes))
    for letter, title in conf.modes.values():
        print("- %s: %s" % (letter, title))
    print("\nThe proven stories, ways and cells of each SDK:\n")
    rows = []
    for sdk, title in conf.sdks.items():
        got = {(s, m): result["%s|%s|%s" % (s, sdk, m)][0] for s in stories for m in conf.modes}
        if "not run" in got.values():
            sys.exit("the tables want all pairs of SDK and way, and not those of MATRIX_PAIRS")
        good = [cell for cell, verdict in got.items() if verdict == "ok"]
        rows.append([quoted(title), str(len({s for s, _ in good})), str(len({m for _, m in good})),
                     "**fails**" if "fail" in got.values() else str(len(good))])
    table(["SDK", "stories", "ways", "cells"], rows)
    print("The cases that are not proven, with the reasons:\n")
    for line in not_proven(conf, stories, result):
        print(line)


def promised(conf, stories, result):
    """The expected results of pairs that did not run, if those that did are right: a cell that differs from the
    tables shows in the tables."""
    for sdk in conf.sdks:
        lacks = {}
        for story in stories:
            for mode in conf.modes:
                verdict, why = result["%s|%s|%s" % (story, sdk, mode)]
                if verdict == "na" and (story, sdk, mode) not in conf.lacks:
                    lacks[story] = why
        for story in stories:
            for mode in conf.modes:
                cell = "%s|%s|%s" % (story, sdk, mode)
                due = conf.exception.get((sdk, mode)) or ("ok", "")
                if (story, sdk, mode) in conf.lacks:
                    due = ("na", conf.lacks[story, sdk, mode])
                elif story in lacks:
                    due = ("na", lacks[story])
                if result[cell][0] == "not run":
                    result[cell] = due
    return result


def ways(conf, saved, version):
    """The short form, for test/sdk-latest/README.md."""
    print("opentelemetry-cpp %s, stories proven in each way of loading:\n" % version)
    rows = []
    for mode, (letter, title) in conf.modes.items():
        cells = []
        for sdk in conf.sdks:
            got = [saved["result"]["%s|%s|%s" % (s, sdk, mode)][0] for s in saved["stories"]]
            failed = got.count("fail")
            cells.append("%d" % got.count("ok") + (", %d **fail**" % failed if failed else ""))
        rows.append([letter + ": " + title] + cells)
    table(["way of loading"] + list(conf.sdks.values()), rows)


def ways_in(conf, path):
    with open(path, encoding="utf-8") as file:
        text = file.read().split("<!-- sdk-latest:begin -->")[-1]
    text = text.split("<!-- sdk-latest:end -->")[0]
    lines = text.splitlines()
    missing = [t for l, t in conf.modes.values()
               if sum(x.startswith("| %s: %s | " % (l, t)) for x in lines) != 1]
    if missing:
        sys.exit("%s: not what make sdk-latest prints: %s" % (path, missing))


def main():
    if sys.argv[1] == "told":
        wrong = told(*sys.argv[2:5])
        if wrong:
            sys.exit("FAIL: " + wrong)
        return 0
    if sys.argv[1] == "ways-in":
        ways_in(Conf(sys.argv[3]), sys.argv[2])
        return 0
    if sys.argv[1] == "ways":
        with open(sys.argv[2], encoding="utf-8") as file:
            ways(Conf(sys.argv[3]), json.load(file), sys.argv[4])
        return 0
    if sys.argv[1] in ("readme", "promised"):
        with open(sys.argv[2], encoding="utf-8") as file:
            saved = json.load(file)
        if sys.argv[1] == "promised":
            promised(Conf(), saved["stories"], saved["result"])
        readme(Conf(), saved["stories"], saved["result"])
        return 0
    conf = Conf(*sys.argv[4:6])
    stories, result, wrong = run(sys.argv[2], conf)
    with open(sys.argv[3], "w", encoding="utf-8") as file:
        json.dump({"stories": stories, "result": result}, file)
    show(conf, stories, result)
    count = {v: sum(r[0] == v for r in result.values()) for v in SYMBOL}
    check_reasons(conf, result)
    print("\n%d cells proven, %d proven not to be seen, %d without the operation, %d failed"
          % (count["ok"], count["unseen"], count["na"], count["fail"]))
    pairs = {cell.split("|", 1)[1]: verdict != "not run" for cell, (verdict, _) in result.items() if verdict != "absent"}
    if count["not run"]:
        print("these are of %d of the %d pairs of SDK and way (MATRIX_SEED=%s)" % (sum(pairs.values()), len(pairs), SEED))
    for cell, (verdict, detail) in result.items():
        if verdict == "fail":
            print("FAIL %s: %s" % (cell, detail))
    for what in wrong:
        print("FAIL self-check: %s makes no cell fail" % what)
    return 1 if count["fail"] or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
