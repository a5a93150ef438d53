# SPDX-License-Identifier: Apache-2.0
"""Facts in the pages that a program can check: the number of words of the front page, links and their anchors, the
files, variables, options of our programs and targets of make that a page names, and words that a macro of a man page
would join."""

import os
import re
import subprocess
import sys

# Addresses of links and the marks of tables do not count as words.
FRONT_WORDS_MAX = 800
TOOLS = ("spanprof-run", "spanprof-report", "spanprof-doctor", "spanprof-preload", "spanprof-entrypoint")
# Variables of the demo, the tests, of make and of an example, which the profiler does not know.
FOREIGN = re.compile(r"SPANPROF_(OUTPUT_PREFIX|DEMO_\w+|TEST_\w+|SKIP_DEPS|DEBUG|CORPUS_\w+|H|LABEL)$")
problems = []


def problem(path, text):
    problems.append(f"{path}: {text}")


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def tracked(suffix):
    out = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"],
                         capture_output=True, text=True)
    names = out.stdout.split("\n") if out.returncode == 0 and out.stdout else [
        os.path.relpath(os.path.join(d, f), ".") for d, _, files in os.walk(".") for f in files]
    return sorted(n for n in names if n.endswith(suffix) and not n.startswith("build/") and os.path.exists(n))


def anchor(heading):
    """GitHub's anchor for a heading."""
    text = re.sub(r"[^\w\- ]", "", heading.strip().lower())
    return text.replace(" ", "-")


def without_code(text):
    return re.sub(r"```.*?```", "", text, flags=re.S)


def check_links(path, text):
    for target in re.findall(r"\]\(([^)\s]+)\)", without_code(text)):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, fragment = target.partition("#")
        file = os.path.normpath(os.path.join(os.path.dirname(path), name)) if name else path
        if not os.path.exists(file):
            problem(path, f"a link to {target}, which is not there")
        elif fragment and file.endswith(".md"):
            headings = re.findall(r"^#+ (.*)$", without_code(read(file)), flags=re.M)
            if fragment not in [anchor(h) for h in headings]:
                problem(path, f"a link to {target}, and there is no such heading")


def check_files(path, text):
    """Our files that a page names with their folder, relative to the top or to the page's folder."""
    for name in re.findall(r"`((?:[a-z0-9_-]+/)+[\w.-]+\.(?:[chs]|cc|sh|py|bash|conf|allow|js|mk|md))`", text):
        if not any(os.path.exists(os.path.join(d, name)) for d in ("", os.path.dirname(path), "test")):
            problem(path, f"{name} is not there")


def known_variables():
    table = subprocess.run(["build/print-config"], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"`((?:SPANPROF|PYROSCOPE|OTEL)_\w+)`", table))


def check_variables(path, text, known):
    for name in sorted(set(re.findall(r"\bSPANPROF_[A-Z][A-Z0-9_]*[A-Z0-9]\b(?!_?\.\.\.|\()", text))):
        if name not in known and not FOREIGN.match(name):
            problem(path, f"{name} is no variable")


def options_of(tool):
    for place in ("build", "scripts"):
        if os.path.exists(f"{place}/{tool}"):
            out = subprocess.run([f"{place}/{tool}", "--help"], capture_output=True, text=True)
            return set(re.findall(r"--[a-z][a-z-]*", out.stdout))
    sys.exit(f"pages: {tool} is not built")


def check_macros(path, text):
    """A macro with two fonts joins its arguments without a space."""
    for line in re.findall(r"^\.(?:BR|RB|BI|IB|RI|IR) .*", text, flags=re.M):
        words = [word.strip('"') for word in re.findall(r'"[^"]*"|\S+', line)[1:]]
        if any(re.search(r"\w\0\w", f"{a}\0{b}") for a, b in zip(words, words[1:])):
            problem(path, f"words stick together in: {line}")


def check_options(path, text, options):
    for tool in TOOLS:
        for line in re.findall(rf"\b{tool}((?: +(?!--? |{tool})[^\n`|]*)?)", text):
            ours = re.split(r" -- |;|&&|\(| #", line + " ")[0]
            for option in re.findall(r"(?<![\w-])--[a-z][a-z-]*", ours):
                if option not in options[tool] and option not in ("--help", "--version"):
                    problem(path, f"{tool} has no {option}")


def check_targets(path, text, targets):
    for name in re.findall(r"`make ([a-z][a-z0-9-]*)`|^make ([a-z][a-z0-9-]*)", text, flags=re.M):
        if "".join(name) not in targets:
            problem(path, f"make has no target {''.join(name)}")


def check_actions(path, text):
    """A tag of an action can be moved, a commit cannot; a job that may write uses no action."""
    for name in re.findall(r"\buses: *(\S.*)", text):
        if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v[\d.]+", name):
            problem(path, f"{name} is not pinned by its commit, with the version behind it")
    if len(re.findall(r"uses: actions/checkout@.*\n +with:\n +persist-credentials: false\n", text)) != \
            text.count("actions/checkout@"):
        problem(path, "a checkout leaves its credentials behind")
    for job in re.split(r"^  (?=[\w-]+:$)", text, flags=re.M):
        if re.search(r"^      (contents|packages): write", job, flags=re.M) and "uses:" in job:
            problem(path, f"job {job.split(':')[0]} may write and uses an action")
    # Except the newest images of a matrix, whose builds nobody uses.
    for name in re.findall(r"^ +(?:image|container): (?!\[|\$)(\S.*)", text, flags=re.M):
        if not re.fullmatch(r"[\w./:-]+@sha256:[0-9a-f]{64} # [\d-]+", name):
            problem(path, f"{name} is not pinned by its digest, with the day of the image behind it")
    if not re.search(r"^permissions:(\n  contents: read$| \{\}$)", text, flags=re.M):
        problem(path, "jobs have more than the right to read by default")


def check_workflow(path, text, targets):
    check_actions(path, text)
    for name in re.findall(r"\bmake ([a-z][a-z0-9-]*)", text):
        if name not in targets:
            problem(path, f"make has no target {name}")
    for name in re.findall(r"\bscripts/[\w./-]+", text):
        if not os.path.exists(name):
            problem(path, f"{name} is not there")


def make_targets():
    rules = "".join(read(p) for p in ["Makefile"] + tracked("module.mk"))
    return set(w for line in re.findall(r"^([a-z][a-z0-9 -]*):(?!=)", rules, flags=re.M) for w in line.split())


def main():
    known = known_variables()
    options = {tool: options_of(tool) for tool in TOOLS}
    targets = make_targets()
    words = len(re.findall(r"\w\S*", re.sub(r"\]\([^)]*\)|<!--.*?-->", " ", read("README.md"))))
    if words > FRONT_WORDS_MAX:
        problem("README.md", f"{words} words, more than {FRONT_WORDS_MAX}")
    pages = tracked(".md")
    manuals = [p for p in tracked("") if re.match(r"scripts/man/.*\.[1-8]$", p)]
    for path in pages + manuals:
        text = read(path)
        if path in manuals:
            check_macros(path, text)
            text = re.sub(r"\\f[BIRP]", "", text).replace("\\-", "-").replace("\\&", "")
        else:
            check_links(path, text)
            check_targets(path, text, targets)
            check_files(path, text)
        check_variables(path, text, known)
        check_options(path, text, options)
    for path in tracked(".yml"):
        if path.startswith(".github/workflows/"):
            check_workflow(path, re.sub(r"^ *#.*$", "", read(path), flags=re.M), targets)
    if len(pages) < 20 or len(manuals) < 5 or len(known) < 50 or len(targets) < 20:
        problem("pages", f"only {len(pages)} pages, {len(manuals)} manuals, {len(known)} variables, "
                         f"{len(targets)} targets")
    for line in problems:
        print(line)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
