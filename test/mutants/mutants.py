#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Breaks the product in one place at a time and runs the unit tests, to see whether they notice.

    test/mutants/mutants.py [--count N] [--all | --files PATH...] [--seed TEXT] [--list]
    test/mutants/mutants.py --check

README.md in this folder says what is drawn and which survivors fail the run. --check tests whether the line of each
row in reasons still exists.
"""

import argparse
import concurrent.futures
import hashlib
import os
import re
import shlex
import subprocess
import sys
import threading

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WORK = f"build/mutants/{os.getpid()}"
PRODUCT = ("sampler/", "preload/", "export/", "scripts/run/")
LIMIT_S = 60
MOVED = 4  # lines
TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|^[ \t]*#(?:\\\n|[^\n])*'
                   r'|\d\w*|[A-Za-z_]\w*|->|\+\+|--|<<=|>>=|<<|>>|[-+*/%&|^=!<>]=|&&|\|\||\s+|.', re.S | re.M)
# Unit tests cannot notice a missing call of these functions: they release memory or a lock, zero memory that is zero
# already, or log.
UNSEEN_CALLS = re.compile(r"free|fini|close|munmap|unlock|memset|log|debug|fence|assert|va_|fflush|yield|pause", re.I)


def run(*command, **more):
    return subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, **more)


def read(path):
    with open(path, encoding="utf-8", errors="replace") as f:
        return f.read()


# --- Places and mistakes ----------------------------------------------------------------------------------------


class Source:
    """The tokens of a file, without comments, blanks, texts and directives."""

    def __init__(self, path):
        self.path = path
        self.text = read(path)
        self.lines = self.text.split("\n")
        self.tokens = []
        self.seen = {}  # number of the same line and mistake so far
        for m in TOKEN.finditer(self.text):
            word = m.group()
            if not word.isspace() and not word.startswith(("/*", "//")) and word.lstrip()[:1] != "#":
                self.tokens.append((word, m.start(), m.end()))
        self.starts = [0]
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line) + 1)

    def line_of(self, at):
        low, high = 0, len(self.lines)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.starts[middle] <= at else (low, middle)
        return low + 1

    def word(self, i):
        return self.tokens[i][0] if 0 <= i < len(self.tokens) else ""

    def end_of_operand(self, i):
        """The index behind the operand of && or || that begins there."""
        depth = 0
        while i < len(self.tokens):
            word = self.word(i)
            if depth == 0 and word in ("&&", "||", "?", ":", ";", ",", ")", "]", "}"):
                return i
            depth += (word in "([{") - (word in ")]}")
            i += 1
        return i

    def end_of_statement(self, i):
        """The index of the ; that ends the statement, or -1."""
        depth = 0
        for j in range(i, min(i + 80, len(self.tokens))):
            word = self.word(j)
            depth += (word in "([") - (word in ")]")
            if word in "{}" or depth < 0:
                return -1
            if word == ";" and depth == 0:
                return j
        return -1

    def mistakes(self):
        """(offset, end, replacement, words) of each mistake."""
        function = 0  # depth of braces
        table = 0  # within the braces of an initialiser, which contain no statements
        for i, (word, start, end) in enumerate(self.tokens):
            if word == "{":
                function += 1
                table += table > 0 or self.word(i - 1) in ("=", ",", "{", "]")
            elif word == "}":
                function -= 1
                table -= table > 0
            if function <= 0 or table > 0:
                continue
            yield from self.of_token(i, word, start, end)

    def of_token(self, i, word, start, end):
        turned = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
        before = self.word(i - 1)
        if word in turned and self.text[start - 1] == " ":
            # No descriptor is 0 here.
            if word in ("<", ">=") and self.word(i + 1) == "0" and before.endswith("fd"):
                return
            yield start, end, turned[word], f"{word} is {turned[word]}"
        elif word in ("&&", "||"):
            stop = self.end_of_operand(i + 1)
            if self.word(stop) != "?":
                yield self.drop(i + 1, stop, word)
        elif word == "(" and before in ("if", "while"):
            stop = self.end_of_operand(i + 1)
            if self.word(stop) in ("&&", "||"):
                yield self.drop(i + 1, stop, self.word(stop))
            elif self.word(stop) == ")":
                yield end, self.tokens[stop - 1][2], f"!({self.text[end:self.tokens[stop - 1][2]]})", "negated"
        elif word == "return" and self.word(i + 2) == ";":
            other = {"true": "false", "false": "true", "0": "1"}.get(self.word(i + 1))
            if other:
                yield start, self.tokens[i + 1][2], f"return {other}", f"{self.word(i + 1)} is returned as {other}"
        elif word == "return" and self.word(i + 1) == "-" and self.word(i + 3) == ";":
            yield start, self.tokens[i + 2][2], "return 0", "an error is returned as 0"
        elif word in "+-" and self.word(i + 1) == "1" and self.text[start - 1] == " " and self.text[end] == " ":
            yield start, self.tokens[i + 1][2], "", f"{word} 1 is left out"
        elif re.fullmatch(r"\d+[uUlL]*", word) and int(word.rstrip("uUlL")) >= 8 and before != "[":
            number = int(word.rstrip("uUlL"))
            yield start, end, str(number // 2) + word[len(word.rstrip("uUlL")):], f"{number} is halved"
        elif before in (";", "{", "}", ":", ")", "else") and re.match(r"[a-z_(*]", word):
            yield from self.of_statement(i)

    def drop(self, first, stop, operator):
        start, end = self.tokens[first][1], self.tokens[stop - 1][2]
        neutral = "1 ||" if operator == "&&" else "0 &&"
        return start, end, f"({neutral} ({self.text[start:end]}))", "a clause is dropped"

    def of_statement(self, i):
        """A call or a store that is left out. Code behind a ")" is one only after a condition."""
        if self.word(i - 1) == ")" and not self.is_body(i):
            return
        stop = self.end_of_statement(i)
        if stop < 0 or self.word(i) in ("if", "while", "for", "switch", "return", "do", "case", "goto", "else"):
            return
        first, last = self.tokens[i][1], self.tokens[stop - 1][2]
        if self.text[first:last].startswith("(void)"):
            i += 3
        if stop - i < 2:
            return
        if re.match(r"[a-z]", self.word(i)) and self.word(i + 1) == "(" and self.word(i) not in (
                "sizeof",):
            if self.word(stop - 1) == ")" and not UNSEEN_CALLS.search(self.word(i)):
                yield first, last, "(void)0", "a call is left out"
            return
        depth = 0
        for j in range(i, stop):
            word = self.word(j)
            depth += (word in "([") - (word in ")]")
            if depth == 0 and re.fullmatch(r"[-+*/%&|^]?=|<<=|>>=", word):
                yield first, last, "(void)0", "a store is left out"
                return
            # Two adjacent words declare something.
            if re.match(r"[A-Za-z_]", word) and re.match(r"[A-Za-z_*]", self.word(j + 1)):
                return

    def is_body(self, i):
        depth = 0
        for j in range(i - 1, max(i - 120, 0), -1):
            word = self.word(j)
            depth += (word == ")") - (word == "(")
            if depth == 0:
                return self.word(j - 1) in ("if", "while", "for")
        return False

    def mark(self, at, mark):
        """The (offset, text) to be inserted so that mark runs before the innermost statement there; none outside of
        functions."""
        open_, closed, begin, outer, bare, blocks = [], "", 0, 0, False, []
        for i, (word, start, _) in enumerate(self.tokens):
            if start >= at:
                break
            before = self.word(i - 1)
            if word in ("(", "["):
                open_.append(before)
            elif word == "{" and (open_ or before in ("=", ",", "]") or not blocks and before != ")" or
                                  blocks and before == ")" and begin != i and re.match(r"return|\W", closed)):
                open_.append(before)
            elif word in (")", "]", "}") and open_:
                closed = open_.pop()
                if closed in ("if", "while", "for", "switch") and not open_:
                    begin, bare = i + 1, True
            elif word == "{":
                blocks.append((outer, before == "do"))
                begin, outer, bare = i + 1, i + 1, False
            elif word in ("else", "do"):
                begin, bare = i + 1, True
            elif not open_ and (word in (";", "}") or
                                word == ":" and (self.word(begin) in ("case", "default") or i == begin + 1)):
                last, loops = blocks.pop() if word == "}" else (outer, False)
                # A statement with an else, or a do without its while, has not ended.
                bare = loops
                begin, outer = i + 1, last if loops or self.word(i + 1) == "else" else i + 1
        stop = self.end_of_statement(begin)
        if not blocks:
            return []
        if bare and self.word(begin) in ("if", "while"):
            return [(self.tokens[begin + 1][2], f"({{ {mark}}}), ")]
        if bare and stop >= 0 and self.word(begin) not in ("for", "switch", "do"):
            return [(self.tokens[begin][1], "{ " + mark), (self.tokens[stop][2], " }")]
        return [(self.tokens[outer][1], mark)]


class Mutant:
    def __init__(self, source, start, end, becomes, words, seed):
        self.source, self.start, self.end, self.becomes, self.words = source, start, end, becomes, words
        self.path, self.number = source.path, source.line_of(start)
        self.line = source.lines[self.number - 1].strip()
        self.column = start - source.starts[self.number - 1]
        same = source.seen[self.line, words] = source.seen.get((self.line, words), 0) + 1
        key = "\0".join((seed, self.path, self.line, words, str(same)))
        self.rank = hashlib.sha256(key.encode()).hexdigest()

    def row(self):
        """In the form of test/mutants/reasons."""
        return f"{self.path}\t{self.line}\t{self.words}"

    def __str__(self):
        was = " ".join(self.source.text[self.start:self.end].split())
        return f"{self.path}:{self.number}: {self.words}: `{was[:70]}` in `{self.line[:90]}`"

    def text(self):
        return self.source.text[:self.start] + self.becomes + self.source.text[self.end:]


def changed_lines(base):
    """The changed lines of each file of the product, without moved ones. None = they cannot be computed."""
    diff = run("git", "diff", "-U0", "--no-renames", base, "--", *PRODUCT)
    if diff.returncode != 0:
        return None
    gone, runs, path = {}, [], None
    for line in diff.stdout.split("\n"):
        if line.startswith(("+++ ", "--- ")):
            path = line[6:] if line.startswith("+++ b/") else None
        elif line.startswith("-"):
            gone[line[1:].strip()] = gone.get(line[1:].strip(), 0) + 1
        elif match := re.match(r"@@ -\S+ \+(\d+)", line):
            number, added = int(match.group(1)), []
            runs.append((path, added))
        elif line.startswith("+"):
            if line[1:].strip():
                added.append((number, line[1:].strip()))
            number += 1
    lines = {}
    for path, added in runs:
        if path and path.endswith(".c"):
            moved = moved_lines(added, gone)
            lines.setdefault(path, set()).update(number for number, _ in added if number not in moved)
    return lines


def moved_lines(added, gone):
    """The numbers of added lines that are not moved. A moved block has at least MOVED consecutive lines, because a
    single line is often equal by chance. Each removed line accounts for one moved line."""
    moved, block = set(), []
    for number, text in [*added, (0, None)]:
        if text is not None and gone.get(text, 0) > sum(t == text for _, t in block):
            block.append((number, text))
            continue
        if len(block) >= MOVED:
            for number_of_it, text_of_it in block:
                moved.add(number_of_it)
                gone[text_of_it] -= 1
        block = []
    return moved


def draw(files, lines, seed, count, programs):
    """One per line, sorted by line number."""
    found = []
    for path in files:
        if lines is not None and path not in lines or not programs.of(path):
            continue
        source = Source(path)
        for mistake in source.mistakes():
            mutant = Mutant(source, *mistake, seed)
            if lines is None or mutant.number in lines[path]:
                found.append(mutant)
    chosen, taken = [], set()
    for mutant in sorted(found, key=lambda m: m.rank):
        if (mutant.path, mutant.number) not in taken:
            taken.add((mutant.path, mutant.number))
            chosen.append(mutant)
    return chosen[:count], len(found)


# --- Programs ----------------------------------------------------------------------------------------------------


def make_says(target, new):
    """The command with which make would build a target if that file were new."""
    said = run("make", "-n", "V=1", "DEV=1", "SPANPROF_SKIP_DEPS=1", "-W", new, target,
               env={k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))})
    lines = [line for line in said.stdout.replace("\\\n", " ").split("\n") if f"-o {target} " in line]
    if not lines:
        sys.exit(f"make does not say how it makes {target}: {said.stderr.strip()[-300:]}")
    return shlex.split(lines[-1])


class Programs:
    """The unit programs, by the files whose objects are in them."""

    def __init__(self):
        sources = sorted(run("git", "ls-files", "test/unit/*/test_*.c").stdout.split())
        self.paths = [f"build/release/{s[:-2]}" for s in sources]
        missing = [p for p in self.paths if not os.path.exists(p)]
        if missing:
            sys.exit(f"{missing[0]} is not built: make mutants builds it")
        self.symbols = {p: self.symbols_of(p, "tTdDbBrRvV") for p in self.paths}
        self.lock = threading.Lock()
        self.links, self.found, self.good = {}, {}, {}

    @staticmethod
    def symbols_of(path, kinds):
        words = (line.split() for line in run("nm", "--defined-only", path).stdout.split("\n"))
        return {w[2] for w in words if len(w) == 3 and w[1] in kinds}

    def of(self, path):
        """The nearest first: by name, by folder, and then programs with few objects."""
        if path not in self.found:
            own = self.symbols_of(f"build/release/{path[:-2]}.o", "TDBRV")
            noun = re.sub(r"(_sig)?\.c$", "", os.path.basename(path))
            words = set(noun.split("_")) | set(os.path.dirname(path).split("/"))
            users = [p for p in self.paths if own and "main" not in own and own <= self.symbols[p]]
            users.sort(key=lambda p: (f"test_{noun}" != os.path.basename(p),
                                      -len(words & set(re.split(r"[_/]", p))), len(self.symbols[p]), p))
            self.found[path] = users
        return self.found[path]

    def link(self, program, to, *objects):
        with self.lock:
            if program not in self.links:
                self.links[program] = make_says(program, f"{program}.o")
        command = list(self.links[program])
        at = command.index("-o")
        command[at + 1] = to
        command[at + 2:at + 2] = objects
        return run(*command)

    def passes(self, path):
        """Whether it ends with 0 within its time, together with all processes that it started."""
        with subprocess.Popen(["timeout", "-k", "1", str(LIMIT_S), path, "--jobs", "2", f"--tap={path}.tap"],
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              start_new_session=True) as child:
            status = child.wait()
        run("pkill", "-KILL", "-s", str(child.pid))
        return status == 0

    def is_good(self, program, folder):
        """A program that kills must pass with the unbroken source; some look for functions in a file with their
        name."""
        if program not in self.good:
            to = f"{folder}/good/{os.path.basename(program)}"
            os.makedirs(os.path.dirname(to), exist_ok=True)
            self.link(program, to)
            self.good[program] = self.passes(to)
        return self.good[program]


def compiled(path, text, folder):
    """The object for that text of the file; None = it does not compile."""
    os.makedirs(folder, exist_ok=True)
    name = os.path.basename(path)
    source, target = f"{folder}/{name}", f"{folder}/{name[:-2]}.o"
    with open(source, "w", encoding="utf-8") as f:
        f.write(text)
    command = make_says(f"build/release/{path[:-2]}.o", path)
    command = [w for w in command if not w.startswith("-W") or w.startswith("-Wl,")]
    at = command.index("-o")
    # A variable whose store is left out has the same value each time.
    command = command[:at] + ["-w", "-ftrivial-auto-var-init=pattern", "-fno-lto", "-I" + os.path.dirname(path),
                              "-o", target, source]
    command = [w for w in command if w not in ("-MMD", "-MP")]
    return target if run(*command).returncode == 0 else None


# A byte for each mutant, in a file beside the program, to which its children write as well, however they end.
MARKS = """
#define _GNU_SOURCE
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
static unsigned char before[COUNT];
unsigned char *sp_marks = before;
__attribute__((constructor(101))) static void share(void)
{
	char path[PATH_MAX + 8] = "";
	void *marks;
	int fd;

	syscall(SYS_readlinkat, AT_FDCWD, "/proc/self/exe", path, PATH_MAX);
	fd = (int)syscall(SYS_openat, AT_FDCWD, strcat(path, ".marks"), O_RDWR | O_CREAT, 0600);
	syscall(SYS_ftruncate, fd, sizeof(before));
	marks = (void *)syscall(SYS_mmap, 0, sizeof(before), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	syscall(SYS_close, fd);
	if (marks != MAP_FAILED)
		sp_marks = marks;
}
"""


def reached(mutants, programs, pool):
    """For each mutant the programs that run its statement, found by one run of each program with marks."""
    os.makedirs(f"{WORK}/marks", exist_ok=True)
    with open(f"{WORK}/marks/marks.c", "w", encoding="utf-8") as f:
        f.write(MARKS.replace("COUNT", str(len(mutants))))
    subprocess.run(["cc", "-w", "-O1", "-fPIC", "-c", "-o", f"{WORK}/marks/marks.o", f"{WORK}/marks/marks.c"], check=True)
    files = sorted({m.path for m in mutants})

    def object_of(path):
        inserts, text = [], read(path)
        for i, m in enumerate(mutants):
            if m.path == path:
                inserts += m.source.mark(m.start, f"{{ extern unsigned char *sp_marks; sp_marks[{i}] = 1; }} ")
        for at, words in sorted(inserts, reverse=True):
            text = text[:at] + words + text[at:]
        return compiled(path, text, f"{WORK}/marks/{path[:-2]}")

    def marks_of(program):
        to = f"{WORK}/marks/{program.replace('/', '_')}"
        linked = programs.link(program, to, f"{WORK}/marks/marks.o", *(o for p, o in objects.items()
                                                                        if program in programs.of(p)))
        if linked.returncode == 0:
            programs.passes(to)
        marks = b""
        if os.path.exists(f"{to}.marks"):
            with open(f"{to}.marks", "rb") as f:
                marks = f.read()
            os.unlink(to)
        return marks.ljust(len(mutants), b"\0")

    objects = {path: made for path, made in zip(files, pool.map(object_of, files)) if made}
    users = sorted({p for path in files for p in programs.of(path)})
    marks = dict(zip(users, pool.map(marks_of, users)))
    # A mutant without a place for a mark, such as a constant outside of functions, counts as run.
    return {m: [p for p in programs.of(m.path) if marks[p][i] or m.path not in objects or not m.source.mark(m.start, "")]
            for i, m in enumerate(mutants)}


def killer_of(mutant, programs, users, folder):
    """The first of these programs that notices the mutant, or None; "" = it does not compile."""
    target = compiled(mutant.path, mutant.text(), folder)
    if target is None:
        return ""
    for program in users:
        to = f"{folder}/{os.path.basename(program)}"
        linked = programs.link(program, to, target)
        if linked.returncode != 0:
            continue
        if not programs.passes(to) and programs.is_good(program, folder):
            first = re.search(r"^not ok - (\S+)", read(f"{to}.tap") if os.path.exists(f"{to}.tap") else "", re.M)
            return os.path.relpath(program, "build/release/test") + (f": {first.group(1)}" if first else "")
        os.unlink(to)
    return None


def fate_of(mutant, programs, users, folder):
    """The result, and the program that noticed."""
    if not users:
        return "unreached", "no unit program runs this line"
    killer = killer_of(mutant, programs, users, folder)
    if killer == "":
        return "no code", "it does not compile"
    return ("killed", killer) if killer else ("SURVIVED", mutant.row())


def reasons():
    rows = {}
    path = "test/mutants/reasons"
    for line in read(path).split("\n"):
        if not line or line.startswith("#"):
            continue
        fields = line.split("\t")
        if len(fields) != 4 or not fields[3].strip():
            sys.exit(f"{path}: not of the form FILE, LINE, MISTAKE, REASON: {line}")
        if not os.path.exists(fields[0]) or fields[1] not in (x.strip() for x in read(fields[0]).split("\n")):
            sys.exit(f"{path}: {fields[0]} has no such line any more: {fields[1]}")
        rows["\t".join(fields[:3])] = fields[3]
    return rows


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--files", nargs="+", default=[])
    parser.add_argument("--seed", default="")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    os.chdir(ROOT)
    known = reasons()
    if arguments.check:
        print(f"{len(known)} reasons")
        return 0
    programs = Programs()
    files = arguments.files or [f for f in run("git", "ls-files", *PRODUCT).stdout.split() if f.endswith(".c")]
    base = read("test/mutants/base").strip()
    where, strict, lines = f"the lines changed since {base[:12]}", True, None
    if arguments.files:
        where = " ".join(files)
    elif not arguments.all:
        lines = changed_lines(base)
        if lines is None:
            print(f"this clone does not have the commit \"{base}\": drawn from the whole product")
    if lines is None and not arguments.files or lines == {}:
        seed = arguments.seed or run("git", "rev-parse", "HEAD").stdout.strip()
        where, strict, lines, arguments.seed = f"the product, seed {seed}", False, None, seed
    chosen, places = draw(files, lines, arguments.seed, arguments.count, programs)
    if arguments.list:
        print("\n".join(map(str, chosen)))
        return 0
    os.makedirs(WORK, exist_ok=True)
    fates = []
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        users = reached(chosen, programs, pool)
        tried = {pool.submit(fate_of, m, programs, users[m], f"{WORK}/{i}"): m for i, m in enumerate(chosen)}
        for done in concurrent.futures.as_completed(tried):
            mutant, (fate, words) = tried[done], done.result()
            if fate == "SURVIVED" and mutant.row() in known:
                fate, words = "explained", known[mutant.row()]
            fates.append(fate)
            print(f"{fate:9} {mutant}\n{'':9} {words}", flush=True)
    run("rm", "-rf", WORK)
    for program in (p for p, good in programs.good.items() if not good):
        print(f"{program} fails where nothing is broken, and so has killed nothing")
    counts = ", ".join(f"{fates.count(f)} {f}" for f in ("killed", "explained", "unreached", "no code", "SURVIVED"))
    print(f"{len(chosen)} mutants of {places} in {where}: {counts}")
    return 1 if "SURVIVED" in fates and strict or not all(programs.good.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
