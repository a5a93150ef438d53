# SPDX-License-Identifier: Apache-2.0
"""kill_at.py PROGRAM FUNCTION OUT: makes a copy of the program that kills itself (SIGKILL) at the begin of
FUNCTION."""
import os
import struct
import subprocess
import sys

# kill(getpid(), SIGKILL) in system calls, by e_machine: these become the function's first instructions.
CODE = {
    62: bytes.fromhex("b827000000 0f05 89c7 be09000000 b83e000000 0f05"),
    183: struct.pack("<5I", 0xd2801588, 0xd4000001, 0xd2800121, 0xd2801028, 0xd4000001),
}


def main(program, function, out):
    """Writes the copy."""
    symbols = subprocess.run(["nm", "-S", "--defined-only", program], stdout=subprocess.PIPE, check=True).stdout
    at = [line.split() for line in symbols.decode().splitlines() if line.endswith((" t " + function, " T " + function))]
    if len(at) != 1:
        sys.exit("%s: %d functions" % (function, len(at)))
    address, size = int(at[0][0], 16), int(at[0][1], 16)
    with open(program, "rb") as f:
        data = bytearray(f.read())
    code = CODE[struct.unpack_from("<H", data, 18)[0]]
    if size < len(code):
        sys.exit("%s is too short" % function)
    headers, = struct.unpack_from("<Q", data, 32)
    for i in range(struct.unpack_from("<H", data, 56)[0]):
        kind, _, offset, vaddr, _, filesz = struct.unpack_from("<IIQQQQ", data, headers + 56 * i)
        if kind == 1 and vaddr <= address < vaddr + filesz:
            data[address - vaddr + offset:address - vaddr + offset + len(code)] = code
            break
    with open(out, "wb") as f:
        f.write(data)
    os.chmod(out, 0o755)


main(*sys.argv[1:])
