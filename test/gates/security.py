#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Each sentence of the manual's section SECURITY has a test. security.table has the sentence, and below it the files
that prove it, each with words from that file. A changed sentence counts as a new one, so its author has to check its
test. Advice for the reader cannot be proven, and has the word "advice" in place of a file.
"""
import re
import sys

ADVICE_MOST = 4


def plain(line):
    """A line of the page without typesetting; requests for fonts join or space their words."""
    request = re.match(r"\.(B|I|R|BR|RB|BI|IB|IR|RI)\s+(.*)$", line)
    if request:
        words = [quoted or bare for quoted, bare in re.findall(r'"([^"]*)"|(\S+)', request[2])]
        line = (" " if len(request[1]) == 1 else "").join(words)
    return re.sub(r"\\f.|\\&", "", line).replace("\\-", "-").replace("\\ ", " ")


def sentences(page):
    lines, is_inside = [], False
    with open(page, encoding="utf-8") as file:
        for line in file.read().splitlines():
            if line.startswith(".SH "):
                is_inside = line == ".SH SECURITY"
            elif is_inside:
                lines.append("\n" if line == ".PP" else plain(line))
    for paragraph in " ".join(lines).split("\n"):
        text = " ".join(paragraph.split())
        if text:
            yield from re.split(r"(?<=\.) (?=[A-Z])", text)


def table(path):
    proofs, sentence = {}, None
    with open(path, encoding="utf-8") as file:
        for line in file.read().splitlines():
            if line.startswith("#") or not line:
                continue
            if line.startswith("\t"):
                proofs[sentence].append(line.strip())
            else:
                sentence = line
                proofs[sentence] = []
    return proofs


def fault_of(proof):
    path, _, words = proof.partition(": ")
    try:
        with open(path, encoding="utf-8") as file:
            return None if words and words in file.read() else f"{path} does not have '{words}'"
    except OSError:
        return f"{path} is not there"


def main():
    page = list(sentences("scripts/man/spanprof.7"))
    proofs = table("test/gates/security.table")
    problems = [f"has no test: {s}" for s in page if not proofs.get(s)]
    problems += [f"is not in the page: {s}" for s in proofs if s not in page]
    tests = [p for of in proofs.values() for p in of if p != "advice"]
    if sum(of == ["advice"] for of in proofs.values()) > ADVICE_MOST:
        problems.append("more than advice has no test")
    problems += [fault for fault in map(fault_of, tests) if fault]
    for problem in problems:
        print(problem)
    if len(page) < 40:
        print(f"only {len(page)} sentences were found")
    return 1 if problems or len(page) < 40 else 0


if __name__ == "__main__":
    sys.exit(main())
