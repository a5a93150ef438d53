# SPDX-License-Identifier: Apache-2.0
"""Profiles and push requests for the tests of the double, good ones and, on purpose, bad ones: nothing is
checked. Written apart from the project's encoder and from the double's decoder.

  profiles.py pprof|gzip|request SERVICE [COUNT SPAN_ID SPAN_NAME TRACE_ID]...

writes one to stdout: COUNT samples of 10 ms for each four words, of which "-" leaves a label out. request is
a push request with gzip inside.
"""
import gzip
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
from pb import field, varint

TICK_NS = 10000000
SPAN = "9a517183f26a089d"
TRACE = "7c9e66797425440de944be07fc1f90ae"
CPU = (("samples", "count"), ("cpu", "nanoseconds"))


class Profile:
    """One mapping, and functions and locations 1 main, 2 work, 3 leaf; samples are missing."""

    def __init__(self, time_ns, types=CPU, period=("cpu", "nanoseconds")):
        self.known, self.strings, self.out = {}, [], []
        self.string("")
        for kind in types:
            self.type(1, *kind)
        if period:
            self.type(11, *period)
            self.add(12, TICK_NS)
        if time_ns:
            self.add(9, time_ns)
        self.add(10, 10 ** 10)
        self.mapping(1, self.string("/bin/host"))
        for number, name in enumerate(("main", "work", "leaf"), 1):
            self.function(number, self.string(name))
            self.location(number, 1, number)

    def add(self, number, body):
        self.out.append(field(number, body))

    def new_string(self, text):
        self.strings.append(text if isinstance(text, bytes) else text.encode())
        return len(self.strings) - 1

    def string(self, text):
        """The index of the text, the same again for an equal one."""
        if text not in self.known:
            self.known[text] = self.new_string(text)
        return self.known[text]

    def type(self, number, kind, unit):
        self.add(number, field(1, self.string(kind)) + field(2, self.string(unit)))

    def mapping(self, number, file, has_functions=True, more=b""):
        self.add(3, field(1, number) + field(5, file) + field(7, int(has_functions)) + more)

    def function(self, number, name):
        self.add(5, field(1, number) + field(2, name & 2 ** 64 - 1))

    def location(self, number, mapping, function):
        """Without a function: an address."""
        self.add(4, field(1, number) + field(2, mapping) +
                 (field(4, field(1, function)) if function else field(3, 0x1000 + number)))

    def label(self, key, text=None, number=0):
        return field(3, field(1, self.string(key)) +
                     (field(2, self.string(text)) if text is not None else b"") +
                     (field(3, number) if number else b""))

    def sample(self, values=(1, TICK_NS), stack=(3, 2, 1), labels=b""):
        self.add(2, field(1, b"".join(map(varint, stack))) +
                 field(2, b"".join(varint(v & 2 ** 64 - 1) for v in values)) + labels)

    def span(self, count=1, span_id=SPAN, name="GET /", trace_id=TRACE):
        labels = (("span_id", span_id), ("span_name", name), ("trace_id", trace_id))
        self.sample((count, count * TICK_NS),
                    labels=b"".join(self.label(k, v) for k, v in labels if v is not None))

    def bytes(self):
        return b"".join(self.out) + b"".join(field(6, text) for text in self.strings)


def series(labels, *profiles):
    """One series of a push request."""
    body = b"".join(field(1, field(1, k) + field(2, v)) for k, v in
                    (tuple(w if isinstance(w, bytes) else w.encode() for w in pair) for pair in labels))
    for raw in profiles:
        body += field(2, field(1, raw) + field(2, b"734FD599-6865-419E-9475-932762D8F469"))
    return field(1, body)


def main():
    kind, service, words = sys.argv[1], sys.argv[2], sys.argv[3:]
    profile = Profile(time.time_ns())
    while words:
        (count, *labels), words = words[:4], words[4:]
        profile.span(int(count), *(None if word == "-" else word for word in labels))
    out = profile.bytes()
    if kind != "pprof":
        out = gzip.compress(out)
    if kind == "request":
        out = series((("__name__", "process_cpu"), ("service_name", service)), out)
    sys.stdout.buffer.write(out)


if __name__ == "__main__":
    main()
