# SPDX-License-Identifier: Apache-2.0
"""Extracts every sentence that our programs can print from the sources, and checks them as far as a program can.

messages.py --list prints them, one a line: where it goes (error, warn, info, debug for the log; usage for a tool's
complaint; text for a part of one, of a page or of a file), the sentence, its place in the sources. Without arguments
it checks them."""

import re
import sys

from pages import known_variables, read, tracked

# Functions that print with a level, and the argument with the text.
LOGS = ("sp_log", "sp_export_log", "sp_export_log_limited", "log", "tell", "warn")
# Functions for complaints of tools: one line, after the tool's name.
COMPLAINTS = ("complain", "sp_complain", "give_up", "usage")
SHELL_TOOLS = ("scripts/spanprof-doctor",)
FOLDERS = ("sampler/", "preload/", "export/", "scripts/run/")
LENGTH_MAX = 240
# Words that only this project knows, or that have another meaning in the field.
OUR_WORDS = re.compile(r"\b(batch(es)?|ticks?|strides?|sightings?|upkeep|headroom|nought)\b")
# The subject of a message is spanprof or this machine, not "we".
WE = re.compile(r"\b[Ww]e\b|\bours?\b| us\b(?!,)")
# The loader prints these, or they are no messages.
OTHERS = re.compile(r"object '|\.\.\. cannot be preloaded|version `|error while loading|[A-Z][a-z]")
FORMAT = re.compile(r"%[-#0 +]*(\d+|\*)?(\.(\d+|\*))?(hh|ll|[hlzjt])?[a-zA-Z]")

problems = []


TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|[A-Za-z_]\w*|\\\n|\s+|.', re.S)


def tokens(source):
    """(text, line), without comments, spaces and directives, except directives that define a text."""
    source = re.sub(r"^#\s*(include|pragma|error)[^\n]*", "", source, flags=re.M)
    line = 1
    for match in TOKEN.finditer(source):
        text = match.group()
        if not (text.startswith(("/*", "//")) or text.isspace() or text == "\\\n"):
            yield text, line
        line += text.count("\n")


def unquote(literal):
    return literal[1:-1].replace('\\"', '"').replace("\\n", "\n").replace("\\t", "\t").replace("\\\\", "\\")


def level_of(arguments):
    level = [a for a in arguments if a.startswith("SP_LOG_")]
    return level[0][len("SP_LOG_"):].lower() if level else "warn"


class Literals:
    """The texts of a C file, each with the function that is called with it."""

    def __init__(self, path):
        self.path = path
        self.found = []  # [kind, text, line]
        self.calls = []  # for each open parenthesis: [name, arguments so far, has a text]
        self.last = ""
        self.joins = False  # the next text continues the last one
        for text, line in tokens(read(path)):
            self.take(text, line)
            self.last = text

    def take(self, text, line):
        if text.startswith('"'):
            self.add(unquote(text), line)
            return
        if self.joins and re.match(r"PRI[a-zA-Z]+\d*$|SP_CONTEXT_SYMBOL$|SP_CONFIG_[A-Z_]+$", text):
            self.found[-1][1] += "u" if text.startswith("PRI") else text
            return
        self.joins = False
        if text == "(":
            self.calls.append([self.last, [], False])
        elif text == ")" and self.calls:
            self.calls.pop()
        elif self.calls:
            self.calls[-1][1].append(text)

    def add(self, text, line):
        if self.joins:
            self.found[-1][1] += text
            return
        self.found.append([self.kind(), text, line])
        self.joins = True

    def kind(self):
        for call in self.calls[::-1]:
            if call[0] == "_Static_assert":
                return "none"
            if call[0] in LOGS + COMPLAINTS and not call[2]:
                call[2] = True
                return level_of(call[1]) if call[0] in LOGS else "usage"
        return "text"


def of_c(path):
    for kind, text, line in Literals(path).found:
        words = re.findall(r"[A-Za-z]{2,}", FORMAT.sub(" ", text))
        if kind not in ("none", "text") or kind == "text" and len(words) >= 3 and text.count(" ") >= 2:
            yield kind, text, f"{path}:{line}"


def of_shell(path):
    source = re.sub(r"\\\n\s*", "", read(path))
    for match in re.finditer(r"""\b(wrong|note|well|cannot|complain|say|warn|die)((?: ('[^']*'|"(?:\\.|[^"\\])*"))+)""",
                             source):
        for text in re.findall(r"""'[^']*'|"(?:\\.|[^"\\])*\"""", match.group(2)):
            if len(re.findall(r"[A-Za-z]{2,}", text)) >= 3:
                yield "text", unquote(text), f"{path}: {match.group(1)}"


def all_texts():
    for path in tracked((".c", ".h")):
        if path.startswith(FOLDERS):
            yield from of_c(path)
    for path in SHELL_TOOLS:
        yield from of_shell(path)


def problem(place, text, what):
    problems.append(f"{place}: {what}: {text!r}")


def check_line(text, place):
    """One line of the log, after "spanprof[PID]: ", or of a tool, after its name."""
    if "\n" in text or "\t" in text:
        problem(place, text, "more than a line")
    if text != text.strip() or "  " in text:
        problem(place, text, "spaces")
    if text.endswith((".", "!")):
        problem(place, text, "a message ends without a full stop")
    if len(text) > LENGTH_MAX:
        problem(place, text, f"{len(text)} characters, more than {LENGTH_MAX}")
    if re.match(r"[A-Z][a-z]", text):
        problem(place, text, "a message begins in lower case")


def check_words(text, place, known):
    if OUR_WORDS.search(text):
        problem(place, text, f"\"{OUR_WORDS.search(text).group()}\" is no word that a user knows")
    if WE.search(text):
        problem(place, text, "a message says who \"we\" are")
    for name in re.findall(r"\b(?:SPANPROF|PYROSCOPE)_[A-Z0-9_]*", text):
        if name not in known:
            problem(place, text, f"{name} is no variable")


def check_doctor(messages):
    """The texts that the doctor searches in the messages of a program."""
    source = read("scripts/spanprof-doctor")
    patterns = re.findall(r'^\t\t\*"([^"]+)"\*\)', source, flags=re.M)
    for pattern in patterns:
        if not OTHERS.match(pattern) and not any(pattern in m for m in messages):
            problem("scripts/spanprof-doctor", pattern, "no message is like that")
    return len(patterns)


def is_made_by(heading, text):
    """The heading is an example of the output of that format."""
    fixed = FORMAT.sub("\0", text).split("\0")
    return sum(map(len, fixed)) > 8 and re.fullmatch(".*".join(map(re.escape, fixed)), heading)


def check_manual(texts):
    """The headings of TROUBLESHOOTING that begin like messages."""
    page = read("scripts/man/spanprof.7")
    section = re.search(r"^\.SH TROUBLESHOOTING$(.*?)^\.SH", page, flags=re.M | re.S).group(1)
    headings = re.findall(r"^\.TP\n(.*)$", section, flags=re.M)
    for heading in headings:
        heading = heading.replace("\\&", "").replace("\\-", "-")
        parts = [p for p in re.split(r"\\fI.*?\\fP|\.\.\.|\d+", heading) if len(p) > 8]
        if OTHERS.match(heading) or any(is_made_by(heading, t) for t in texts):
            continue
        for part in parts:
            if not any(part in t for t in texts):
                problem("scripts/man/spanprof.7", heading, f"no message has {part!r}")
    return len(headings)


def main():
    found = list(all_texts())
    if sys.argv[1:] == ["--list"]:
        for kind, text, place in found:
            print(f"{kind:6} {text!r:80} {place}")
        return 0
    known = known_variables() | {"PYROSCOPE_SERVER_ADDRESS", "SPANPROF_DEBUG", "SPANPROF_"}
    lines = [(k, t, p) for k, t, p in found if k != "text"]
    for _, text, place in lines:
        check_line(text, place)
    for _, text, place in found:
        check_words(text, place, known)
    patterns = check_doctor([t for _, t, _ in found])
    headings = check_manual([t for _, t, _ in found])
    if len(lines) < 60 or len(found) < 300 or patterns < 2 or headings < 15:
        problem("messages", "", f"only {len(lines)} messages, {len(found)} texts, {patterns} patterns of the "
                                f"doctor, {headings} headings")
    print("\n".join(problems) or f"{len(lines)} messages, {len(found)} texts")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
