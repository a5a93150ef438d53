# SPDX-License-Identifier: Apache-2.0
"""scribble.py PID SECONDS SEED [spare]: overwrites random parts of the memory that a host shares with its exporter,
until the host is gone or the time is over; spare: only records that wait to be read, so that both go on. Prints how
often."""
import os
import random
import struct
import sys
import time

PAGE = 4096
# struct sp_region: fields that are written once, offsets of its parts, and the counters and states behind them.
HEAD = struct.Struct("<QIIQQ8Q")
STATES_END = 64 * 1024


def regions(pid):
    """The addresses in the host; the last one is in use."""
    with open("/proc/%d/maps" % pid, encoding="utf-8") as f:
        return [tuple(int(x, 16) for x in line.split()[0].split("-")) for line in f if "memfd:spanprof" in line]


def word(draw):
    """A value that a program may handle badly."""
    kind = draw.randrange(6)
    if kind == 0:
        return draw.getrandbits(64)
    if kind == 1:  # the header of a record
        return draw.randrange(12) << 56 | draw.randrange(5000)
    if kind == 2:
        return draw.choice((0, 1, 2 ** 32 - 1, 2 ** 63, 2 ** 64 - 1, 2 ** 64 - 8))
    if kind == 3:
        return draw.randrange(2 ** 16)
    if kind == 4:
        return draw.randrange(2 ** 47)
    return draw.getrandbits(32) << 32 | draw.randrange(64)


def records(mem, at, size):
    """The offsets of the words of waiting records in that ring, without their headers. Records that wrap around its
    end are left alone."""
    head, = struct.unpack("<Q", os.pread(mem, 8, at))
    tail, = struct.unpack("<Q", os.pread(mem, 8, at + 64))
    begin = tail % size
    waiting = os.pread(mem, min(head - tail, size - begin, 16 * PAGE), at + PAGE + begin) if head > tail else b""
    words = struct.unpack("<%dQ" % (len(waiting) // 8), waiting)
    found = []
    i = 0
    while i < len(words) and words[i] != 0:
        end = i + 1 + (words[i] & (1 << 56) - 1) // 8
        found += range(i + 1, min(end, len(words)))
        i = end
    return [at + PAGE + begin + 8 * i for i in found]


def place(draw, at, parts):
    """The offset of a word, mostly one that will be read soon."""
    start, size = draw.choice(parts)
    kind = draw.randrange(4)
    if kind == 0:
        return at + draw.randrange(STATES_END // 8) * 8
    if kind == 1:
        return at + start + draw.randrange(16) * 8
    return at + start + draw.randrange(min(size, (1, 16, 256)[draw.randrange(3)] * PAGE) // 8) * 8


def main(pid, seconds, seed, spare=""):
    """Until the host is gone, or the time is over."""
    draw = random.Random(int(seed))
    end = time.monotonic() + float(seconds)
    written = 0
    mem = os.open("/proc/%s/mem" % pid, os.O_RDWR)
    while time.monotonic() < end:
        try:
            at, until = regions(int(pid))[-1]
            head = HEAD.unpack(os.pread(mem, HEAD.size, at))[5:]
            parts = [(start, size) for start, size in zip(head[::2], head[1::2])
                     if size >= 2 * PAGE and start + size <= until - at] or [(0, 64 * PAGE)]
            if spare:
                places = [where for start, size in parts[:3]
                          for where in records(mem, at + start, 1 << (size - PAGE).bit_length() - 1)]
                places = draw.sample(places, len(places) // 8)
            else:
                places = [place(draw, at, parts) for _ in range(500)]
            for where in places:
                os.pwrite(mem, struct.pack("<Q", word(draw)), where // 8 * 8)
            written += len(places)
        except (OSError, IndexError, struct.error):
            if not os.path.exists("/proc/%s/mem" % pid):
                break
            time.sleep(0.01)
    print(written)


main(*sys.argv[1:])
