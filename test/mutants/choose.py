#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Chooses mutants by chance: test/mutants/choose.py COUNT SEED prints rows for test/mutants/run.sh.

Whoever writes a table of mutants by hand breaks what they know to be tested. So places are drawn from all
code that runs in the signal handler or in a hook, each file with the same chance, and the change from the
mistakes that fit the line: a comparison off by one or turned around, "and" for "or", a condition negated,
an answer turned around, one that is added left out, a call or an assignment left out. The same seed and
sources give the same mutants.
"""

import glob
import random
import re
import sys

SOURCES = ["sampler/*/*_sig.c", "preload/hooks/*.c"]

# What may notice, nearest first: the tests of the folder after those that have the file's name.
FOLDERS = {
    "sampler/base": ["unit/core/test_handler", "unit/core/test_thread", "unit/sampler/test_unwind_hostile",
                     "e2e/thread_names", "e2e/early_end", "e2e/valgrind"],
    "sampler/region": ["unit/core/test_ring", "stress/ring_step", "stress/ring", "unit/core/test_handler"],
    "sampler/open_spans": ["unit/core/test_span_stack", "unit/core/test_span_table", "unit/core/test_active_span",
                           "unit/core/test_span_name", "unit/core/test_span", "stress/second_look_step",
                           "stress/span_stack_step", "unit/core/test_handler_labels"],
    "sampler/span": ["unit/core/test_active_span", "unit/core/test_span", "unit/core/test_handler_labels",
                     "stress/second_look_step"],
    "sampler/context": ["unit/core/test_foreign_context", "unit/core/test_thread_context",
                        "stress/thread_context_step", "e2e/foreign_context"],
    "sampler/thread": ["unit/core/test_thread", "unit/core/test_thread_timer", "unit/core/test_signals",
                       "unit/core/test_handler", "stress/second_look_step", "e2e/alternate_stack",
                       "e2e/small_stacks", "e2e/signals", "e2e/own_handlers"],
    "sampler/unwind": ["unit/sampler/test_unwind", "unit/sampler/test_cfi", "unit/sampler/test_dwarf_expr",
                       "unit/sampler/test_ehframe", "unit/sampler/test_rule_cache", "unit/sampler/test_fast_path",
                       "unit/sampler/test_stack_bounds", "unit/sampler/test_snapshot",
                       "unit/sampler/test_module_event", "unit/sampler/test_unwind_coroutine",
                       "unit/sampler/test_unwind_hostile", "unit/export/test_unwind_snapshot", "step/reload",
                       "step/gaps", "step/oracle", "e2e/snapshot", "e2e/dlopen_local", "e2e/identity"],
    "sampler/sampling": ["unit/core/test_handler", "unit/core/test_handler_labels", "unit/core/test_thread_account",
                         "unit/core/test_sampler", "unit/core/test_signals", "e2e/unsampled_cpu", "e2e/signals"],
    "preload/hooks": ["e2e/pointers", "e2e/kill_switches", "e2e/own_handlers", "e2e/block_signals",
                      "e2e/pending_signals", "e2e/vfork_mask", "e2e/exec", "e2e/exit_variants", "e2e/threads",
                      "e2e/setxid", "e2e/seccomp", "e2e/one_thread", "e2e/neutral", "e2e/signals"],
}

# (what fits, what it becomes, words for it)
MISTAKES = [
    (r" < ", " <= ", "< is <="), (r" <= ", " < ", "<= is <"),
    (r" > ", " >= ", "> is >="), (r" >= ", " > ", ">= is >"),
    (r" == ", " != ", "== is !="), (r" != ", " == ", "!= is =="),
    (r" && ", " || ", "and is or"), (r" \|\| ", " \\&\\& ", "or is and"),
    (r"return true;", "return false;", "true is returned as false"),
    (r"return false;", "return true;", "false is returned as true"),
    (r"return 0;", "return 1;", "0 is returned as 1"),
    (r" \+ 1\b", "", "the one that is added is left out"), (r" - 1\b", "", "the one less is left out"),
    (r"\bif \(!", "if (", "a condition is negated"),
    (r"\bif \(([a-z_>.-]+)\)", "if (!\\1)", "a condition is negated"),
    (r"^\t+[a-z][a-z0-9_]*\([^;]*\);$", None, "a call is left out"),
    (r"^\t+\(void\)[a-z][a-z0-9_]*\([^;]*\);$", None, "a call is left out"),
    (r"^\t+[a-z][][a-z0-9_>.-]* [|&+-]?= [^;]*;$", None, "an assignment is left out"),
]


def places(path):
    """All (line number, sed expression, words, text) of a file."""
    text = open(path, encoding="utf-8").read().split("\n")
    comment = False
    for number, line in enumerate(text, 1):
        inside = comment or line.lstrip().startswith("/*")
        if "/*" in line:
            comment = True
        if "*/" in line:
            comment = False
        if inside or not line.startswith("\t") or '"' in line or "?" in line and ":" in line:
            continue
        before = text[number - 2].rstrip() if number > 1 else ""
        begins = before.endswith((";", "{", "}", ":", "*/")) or before == ""
        for pattern, becomes, words in MISTAKES:
            if becomes is None:
                # alone after an "if" the statement leaves a condition without a body
                if re.search(pattern, line) and begins:
                    yield number, f"{number}d", words, line.strip()
            elif len(re.findall(pattern, line)) == 1:
                yield number, f"{number}s/{pattern}/{becomes}/", words, line.strip()


def tests_of(path):
    folder, name = path.rsplit("/", 1)
    noun = re.sub(r"(_sig)?\.c$", "", name)
    own = [t[len("test/"):].rsplit(".", 1)[0]
           for t in sorted(glob.glob(f"test/unit/*/test_{noun}.c") + glob.glob(f"test/stress/{noun}*.c"))]
    return list(dict.fromkeys(own + FOLDERS[folder]))


def main():
    count, seed = int(sys.argv[1]), int(sys.argv[2])
    chance = random.Random(seed)
    files = {path: list(places(path)) for pattern in SOURCES for path in sorted(glob.glob(pattern))}
    files = {path: found for path, found in files.items() if found}
    chosen = set()
    while len(chosen) < min(count, sum(map(len, files.values()))):
        path = chance.choice(sorted(files))
        number, expression, words, text = chance.choice(files[path])
        if any(p == path and n == number for p, n, *_ in chosen):
            continue
        chosen.add((path, number, expression, words, text))
    for path, number, expression, words, text in sorted(chosen):
        noun = path.rsplit("/", 1)[1].removesuffix(".c")
        print(f"{noun}-{number}", path, ",".join(tests_of(path)), f"{words}: `{text}`", expression, sep="\t")


if __name__ == "__main__":
    main()
