# SPDX-License-Identifier: Apache-2.0
"""Commands of the pages that readers may copy. Prints each as "PAGE:LINE COMMANDS"; tabs join the lines of one block.
In Markdown these are blocks marked "sh", and code within a line that begins with "spanprof-run", or with
"spanprof-report" and names a folder. In man pages these are the lines of EXAMPLES. A comment "docs-test: no, REASON"
before a block, or before a line of EXAMPLES, leaves it out."""

import re
import sys

INLINE = re.compile(r"`(spanprof-run [^`]+|spanprof-report [^`]* /[^`]+)`")
# Words for which a reader has to put in his own.
BLANKS = re.compile(r"\b(PID|DIR|FILE|COMMAND|NAME)\b|\.\.\.")


# --serve runs until it is interrupted, and the test has no profiles from the times that the pages name.
ELSEWHERE = re.compile(r" --serve | --(baseline-)?(from|to) ")


def without_comment(line):
    return re.sub(r"(^|\s)#.*", "", line).rstrip()


def markdown(path, lines):
    block, first, left_out = None, 0, False
    for number, line in enumerate(lines, 1):
        if block is not None:
            if line.startswith("```"):
                if not left_out and block:
                    yield path, first, block
                block, left_out = None, False
            elif without_comment(line) and not ELSEWHERE.search(without_comment(line)):
                block.append(without_comment(line))
        elif line.startswith("```"):
            block, first = [], number + 1
            left_out = left_out or line.strip() != "```sh"
        elif line.startswith("<!-- docs-test: no, "):
            left_out = True
        else:
            for command in INLINE.findall(line):
                if not BLANKS.search(command) and not ELSEWHERE.search(command):
                    yield path, number, [command]


def manual(path, lines):
    section, inside, left_out = "", False, False
    for number, line in enumerate(lines, 1):
        if line.startswith(".SH "):
            section = line[4:].strip()
        elif line.strip() in (".nf", ".fi"):
            inside = line.strip() == ".nf"
        elif line.startswith('.\\" docs-test: no, '):
            left_out = True
        elif section == "EXAMPLES" and inside:
            command = without_comment(line.replace("\\-", "-").replace("\\e", "\\"))
            if command and not left_out and not ELSEWHERE.search(command):
                yield path, number, [command]
            left_out = False


for page in sys.argv[1:]:
    with open(page, encoding="utf-8") as file:
        text = file.read().split("\n")
    for path, number, commands in (markdown if page.endswith(".md") else manual)(page, text):
        print(f"{path}:{number}", "\t".join(commands))
