# SPDX-License-Identifier: Apache-2.0
"""Runs the conformance matrix that matrix.conf describes: every story with every SDK, loaded in
every way, under the profiler and without it.

  matrix.py run SO RESULTS [CONF PROGRAMS]    prints the matrix; fails if a cell does, or if the
                              self-check does, which is made without CONF only
  matrix.py readme RESULTS    prints the same as the tables of test/conformance/README.md
  matrix.py ways RESULTS CONF VERSION    prints one table: ways of loading, and the stories proven
  matrix.py ways-in FILE CONF    FILE has a row for each way of CONF

A cell is proven when each sample taken in the story carried what it has to, each exported span has
the attribute it has to, and the host noticed nothing: same output, same end as without us.
"""
import concurrent.futures
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
CONF = os.path.join(HERE, "matrix.conf")
BUILD = os.path.join("build", "test", "conformance")
LIMIT_S = 120

# What the environment says, and what the stories are to expect from it. Own id and root's name, or
# the other way round, so that one run shows both.
OWN_IDS = ("ids=all names=root", {"SPANPROF_SPAN_ID_SCOPE": "all",
                                  "SPANPROF_SPAN_NAME_SCOPE": "root"})
ROOT_IDS = ("ids=root names=all", {"SPANPROF_SPAN_ID_SCOPE": "root",
                                   "SPANPROF_SPAN_NAME_SCOPE": "all"})


class Conf:
    def __init__(self, path=CONF, programs=BUILD):
        self.path, self.programs = path, programs
        self.sdks, self.modes, self.second = {}, {}, {}
        self.exception, self.reasons, self.lacks = {}, {}, {}
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

    def take_reason(self, key, *text):
        self.reasons[key] = " ".join(text)


def command(conf, sdk, mode):
    """How the host of that SDK is started in that mode, and what the environment adds."""
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


MODE_ENV = {
    "root": {"SPANPROF_SPAN_CPU_TIME": "true"},
    "late": {"SPANPROF_PROFILE": "always"},
    "dlsym_on": {"SPANPROF_HOOK_DLSYM": "true"},
}


def clean_environment():
    foreign = ("SPANPROF_", "PYROSCOPE_", "OTEL_", "OTELC_", "FIXTURE_", "LD_PRELOAD")
    env = {k: v for k, v in os.environ.items() if not k.startswith(foreign)}
    env["LC_ALL"] = "C"
    return env


@contextlib.contextmanager
def folder_for_exporter():
    """As TemporaryDirectory, but an exporter whose host is gone may still be writing there."""
    folder = tempfile.mkdtemp(prefix="spanprof-matrix.")
    try:
        yield folder
    finally:
        for _ in range(200):
            shutil.rmtree(folder, ignore_errors=True)
            if not os.path.exists(folder):
                break
            time.sleep(0.05)


def run_host(argv, env):
    """Every story once: what the host showed, and the verdicts."""
    with folder_for_exporter() as folder:
        if "LD_PRELOAD" in env:
            env["SPANPROF_OUTPUT_DIR"] = folder
            # Stories look for the attributes of spans without samples, too.
            env.setdefault("SPANPROF_ATTRIBUTES", "always")
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
    # What the profiler says is its own; the rest is the host's.
    stderr = [x for x in done.stderr.splitlines() if not x.startswith("spanprof[")]
    return done.returncode, done.stdout, "\n".join(stderr), verdicts


def sections(stdout):
    """What each story showed."""
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
    _, out_with, err_with, verdicts = with_us
    _, out_without, err_without, bare = without
    shown, alone = sections(out_with), sections(out_without)
    cells = {}
    for story in alone:
        kind, detail = verdicts.get(story, ("fail", "no verdict: " + err_with[-300:]))
        if kind == "silent":
            kind, detail = "fail", "the profiler was not there"
        if bare.get(story, ("none",))[0] not in ("silent", "na"):
            kind, detail = "fail", "without the profiler: " + err_without[-300:]
        if shown.get(story) != alone[story]:
            kind, detail = "fail", detail + " the host noticed: " + difference(
                alone[story], shown.get(story, []))
        cells[story] = (kind, detail)
    if with_us[0] != without[0] or err_with != err_without:
        cells = {s: ("fail", "the host ended %d, not %d: %s" % (
            with_us[0], without[0], err_with[-300:])) for s in alone or ["(no story)"]}
    return cells


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
    without = run_host(argv, dict(env))
    env.update(scopes)
    env.update(MODE_ENV.get(mode, {}))
    env.update(more or {})
    env["SPANPROF_FLUSH_TIMEOUT"] = "0"
    env["CONFORMANCE_LABELS"] = labels or ("unseen" if kind == "unseen" else expected)
    if preload:
        env["LD_PRELOAD"] = so
    return judge(run_host(argv, env), without)


def self_check(conf, so):
    """Each way in which a cell can fail does make cells fail."""
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
    told = (0, "== s\nstart a\nstatus 700\n", "", {"s": ("ok", "")})
    for what, other in (("another line", "== s\nstart b\nstatus 700\n"),
                        ("another end", "== s\nstart a\nstatus 6\n")):
        if judge((0, other, "", {"s": ("ok", "")}),
                 (0, told[1], "", {"s": ("silent", "")}))["s"][0] != "fail":
            wrong.append(what)
    return wrong


SYMBOL = {"ok": "+", "unseen": "0", "na": ".", "absent": " ", "fail": "F"}


def run(so, conf):
    pairs = [(s, m) for s in conf.sdks for m in conf.modes
             if conf.exception.get((s, m), ("",))[0] != "absent"]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        jobs = {p: pool.submit(run_cell, conf, so, *p) for p in pairs}
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
                elif (story, sdk, mode) in conf.lacks:
                    verdict, detail = "na", conf.lacks[story, sdk, mode]
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
          ". no such operation   F failed\n")
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
    """Names of a set, in the order of everything, or those that are missing where these are fewer."""
    missing = [n for n in everything if n not in names]
    if not missing:
        return "all " + word
    if len(missing) < len(names):
        return "all %s but %s" % (word, ", ".join("*%s*" % n for n in missing))
    return ", ".join("*%s*" % n for n in everything if n in names)


def not_proven(conf, stories, result):
    """Lines that tell each reason once: the SDKs, and their stories or ways, that it is the reason for."""
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
                yield "- %s %s%s: %s" % (shorter(sdks, titles, "SDKs"), start,
                                          shorter(whats, everything, word), conf.reasons[why])


def readme(conf, stories, result):
    check_reasons(conf, result)
    print("%d stories: %s.\n" % (len(stories), ", ".join(stories)))
    print("%d ways of loading:\n" % len(conf.modes))
    for letter, title in conf.modes.values():
        print("- %s: %s" % (letter, title))
    print("\nProven are, of each SDK, so many stories in so many ways, which is so many cells:\n")
    rows = []
    for sdk, title in conf.sdks.items():
        got = {(s, m): result["%s|%s|%s" % (s, sdk, m)][0] for s in stories for m in conf.modes}
        good = [cell for cell, verdict in got.items() if verdict == "ok"]
        rows.append([quoted(title), str(len({s for s, _ in good})), str(len({m for _, m in good})),
                     "**fails**" if "fail" in got.values() else str(len(good))])
    table(["SDK", "stories", "ways", "cells"], rows)
    print("What is not proven, and why:\n")
    for line in not_proven(conf, stories, result):
        print(line)


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
    if sys.argv[1] == "ways-in":
        ways_in(Conf(sys.argv[3]), sys.argv[2])
        return 0
    if sys.argv[1] == "ways":
        with open(sys.argv[2], encoding="utf-8") as file:
            ways(Conf(sys.argv[3]), json.load(file), sys.argv[4])
        return 0
    if sys.argv[1] == "readme":
        with open(sys.argv[2], encoding="utf-8") as file:
            saved = json.load(file)
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
    for cell, (verdict, detail) in result.items():
        if verdict == "fail":
            print("FAIL %s: %s" % (cell, detail))
    for what in wrong:
        print("FAIL self-check: %s makes no cell fail" % what)
    return 1 if count["fail"] or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
