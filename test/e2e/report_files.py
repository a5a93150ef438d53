#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes files for spanprof-report, each small on disk, and measures what reading them takes.

usage: report_files.py bomb KIND FILE
       report_files.py honest BYTES FILE
       report_files.py hour FOLDER
       report_files.py many NAME_BYTES FILE
       report_files.py peak LIMIT_MIB COMMAND...
       report_files.py cpu COMMAND...
       report_files.py terminal COLUMNS COMMAND...

"hour" is the output of a busy process in an hour, "many" a profile with many samples whose functions have names of
NAME_BYTES bytes. "terminal" runs the command at a terminal of that width, and prints the terminal's text. "cpu"
prints the milliseconds of CPU time that a command took, the least of three times. "peak" runs the command, passes its
exit status on, and fails with 99 if it had more than LIMIT_MIB resident at any time.
"""
import fcntl
import gzip
import os
import pty
import random
import resource
import struct
import subprocess
import sys
import termios

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "common"))
from pb import field, varint


def strings(*more):
    return b"".join(field(6, s) for s in (b"", b"cpu", b"nanoseconds", *more))


def sample_type():
    return field(1, field(1, 1) + field(2, 2))


def location(number, function):
    return field(4, field(1, number) + field(4, field(1, function)))


def function(number, name):
    return field(5, field(1, number) + field(2, name))


def sample(stack, ns=1, labels=b""):
    return field(2, field(1, b"".join(map(varint, stack))) + field(2, varint(ns)) + labels)


def empty_messages():
    """Pairs of bytes that each take more than a hundred bytes in memory, 60 million times."""
    yield sample_type() + strings()
    for _ in range(60):
        yield field(2, b"") * 1000000


def many_small_spans():
    """The report about a span is larger than the span in the file."""
    yield sample_type() + strings(b"span_id")
    yield b"".join(field(6, b"%x" % n) for n in range(300000))
    for n in range(300000):
        yield sample([], 1, field(3, field(1, 3) + field(2, n + 4)))


def one_wide_message():
    """A sample with sixty million labels."""
    yield sample_type() + strings() + field(2, field(3, b"") * 30000000)


def unknown_fields():
    yield sample_type() + strings()
    for _ in range(40):
        yield field(100, b"") * 1000000


def packed_numbers():
    """Single bytes that become eight bytes each."""
    yield sample_type() + strings()
    yield field(2, field(1, b"\1" * 120000000) + field(2, b"\1"))


def long_file_names():
    """Locations without a function, for which names are made."""
    yield sample_type() + strings(b"f" * 1000000)
    yield field(3, field(1, 1) + field(5, 3))
    stack = range(1, 30001)
    for number in stack:
        yield field(4, field(1, number) + field(2, 1) + field(3, number))
    yield sample(stack)


def many_stacks():
    """The file is small but its sums are large: any two stacks share only their root."""
    yield sample_type() + strings(*(b"%d" % n for n in range(120)))
    yield b"".join(function(n, n + 2) + location(n, n) for n in range(1, 120))
    for n in range(30000):
        root = bytes(1 + n // 7 ** k % 7 for k in range(6))
        yield field(2, field(1, b"\1" * 700 + root) + field(2, b"\1"))


def too_much():
    for _ in range(256):
        yield bytes(1 << 20)


BOMBS = {f.__name__: f for f in (empty_messages, many_small_spans, one_wide_message, unknown_fields, packed_numbers,
                                 long_file_names, many_stacks, too_much)}


def honest(size):
    """An hour of a busy server: ids and stacks with little in common."""
    rnd = random.Random(1)
    functions = min(20000, size // 200)
    names = [b"function_%d_%d" % (n, rnd.getrandbits(64)) for n in range(functions)]
    keys = (b"span_id", b"span_name", b"trace_id")
    texts = [b"", b"cpu", b"nanoseconds", *keys, *names]
    out = [sample_type()]
    for n in range(functions):
        out.append(function(n + 1, 6 + n) + location(n + 1, n + 1))
    length = sum(map(len, out)) + sum(map(len, texts))
    while length < size:
        texts += [b"%016x" % rnd.getrandbits(64), b"%032x" % rnd.getrandbits(128)]
        labels = (field(3, field(1, 3) + field(2, len(texts) - 2)) +
                  field(3, field(1, 4) + field(2, 6 + rnd.randrange(100))) +
                  field(3, field(1, 5) + field(2, len(texts) - 1)))
        out.append(sample([rnd.randrange(functions) + 1 for _ in range(rnd.randrange(5, 100))], 10000000,
                          labels))
        length += len(out[-1]) + 52
    return b"".join(out) + b"".join(field(6, s) for s in texts)


# Ids from 1 to FUNCTIONS are single bytes in a packed field.
FUNCTIONS = 127


def write_samples(path, names, samples, depth, leaves, rnd):
    """Samples with that many frames, the last of which are random, each in its own span."""
    spans = [b"%016x" % rnd.getrandbits(64) for _ in range(samples)]
    texts = [b"", b"cpu", b"nanoseconds", b"span_id", b"span_name", b"GET /", *names, *spans]
    table = bytes(1 + n % FUNCTIONS for n in range(256))
    root = bytes(range(1, depth - leaves + 1))
    value = field(2, varint(10000000))
    name = field(3, field(1, 4) + field(2, 5))
    out = [sample_type()]
    out += [function(n, 5 + n) + location(n, n) for n in range(1, FUNCTIONS + 1)]
    for n in range(samples):
        stack = rnd.randbytes(leaves).translate(table) + root
        out.append(field(2, field(1, stack) + value + name + field(3, field(1, 3) + field(2, 6 + FUNCTIONS + n))))
    with gzip.GzipFile(path, "wb", 1, mtime=0) as f:
        f.write(b"".join(out) + b"".join(field(6, s) for s in texts))


def names_of(size):
    return [(b"%03d" % n + b"::name_of_a_function" * (size // 20 + 1))[:size] for n in range(FUNCTIONS)]


def hour(folder):
    """240 intervals of a process whose stacks differ in their leaves, with names like those of C++."""
    rnd = random.Random(2)
    os.makedirs(folder)
    for n in range(240):
        write_samples(f"{folder}/{n:03}.pb.gz", names_of(120), 1000, 30, 8, rnd)


def peak(limit_mib, command):
    status = subprocess.run(command).returncode
    mib = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10
    print(f"peak: {mib} MiB", file=sys.stderr)
    return status if mib <= limit_mib else 99


def cpu_ms(command):
    """The least of three: other load on the machine only makes times longer."""
    all_ms = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        all_ms.append(1000 * (resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before))
    return round(min(all_ms))


def terminal(columns, command):
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))
    process = subprocess.Popen(command, stdout=theirs, env={**os.environ, "TERM": "dumb"})
    os.close(theirs)
    try:
        while part := os.read(ours, 1 << 16):
            sys.stdout.buffer.write(part.replace(b"\r\n", b"\n"))
    except OSError:  # that is the end of a terminal
        pass
    return process.wait()


def main():
    what, *args = sys.argv[1:]
    if what == "bomb":
        with gzip.GzipFile(args[1], "wb", 6, mtime=0) as f:
            for part in BOMBS[args[0]]():
                f.write(part)
    elif what == "hour":
        hour(args[0])
    elif what == "many":
        write_samples(args[1], names_of(int(args[0])), 20000, 30, 4, random.Random(3))
    elif what == "honest":
        with gzip.GzipFile(args[1], "wb", 6, mtime=0) as f:
            f.write(honest(int(args[0])))
    elif what == "cpu":
        print(cpu_ms(args))
    elif what == "terminal":
        sys.exit(terminal(int(args[0]), args[1:]))
    else:
        sys.exit(peak(int(args[0]), args[1:]))


main()
