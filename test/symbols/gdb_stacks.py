# SPDX-License-Identifier: Apache-2.0
"""Runs inside gdb: prints for each address of a program gdb's functions there, one JSON list a line.

gdb -batch -nx -ex "py addresses, out = FILE, FILE" -x gdb_stacks.py --args PROGRAM A function is [name, file, line],
innermost first. The program is stopped before its first instruction, and its program counter is set to one address
after the other.
"""
import json
import os

import gdb


def base_of(path):
    """The address of the file's address 0."""
    pid = gdb.selected_inferior().pid
    with open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
        for line in maps:
            field = line.split()
            if len(field) > 5 and os.path.realpath(field[5]) == os.path.realpath(path):
                first = int(field[0].split("-")[0], 16)
                return first if is_relocated(path) else 0
    raise gdb.GdbError("the program is not mapped")


def is_relocated(path):
    with open(path, "rb") as file:
        return file.read(18)[16] == 3  # ET_DYN


def stack_at(pc):
    gdb.execute(f"set $pc = {pc}", to_string=True)
    functions = []
    frame = gdb.newest_frame()
    while frame is not None:
        place = frame.find_sal()
        file = place.symtab.fullname() if place.symtab is not None else ""
        functions.append([frame.name(), file, place.line if file else 0])
        if frame.type() != gdb.INLINE_FRAME:
            break
        frame = frame.older()
    return functions


def main():
    for setting in ("pagination off", "confirm off", "width 0", "debuginfod enabled off", "startup-with-shell off",
                    "python print-stack none", "language c"):
        gdb.execute(f"set {setting}", to_string=True)
    gdb.execute("starti", to_string=True)
    base = base_of(gdb.current_progspace().filename)
    # The frame of a function may begin anywhere, so all of it must be readable memory.
    gdb.execute("set $rbp = $rsp", to_string=True)
    with open(addresses, encoding="ascii") as asked, open(out, "w", encoding="utf-8") as answers:
        for line in asked:
            try:
                answer = stack_at(base + int(line, 16))
            except gdb.error as error:
                answer = str(error)
            answers.write(json.dumps(answer) + "\n")
    gdb.execute("kill", to_string=True)


main()
