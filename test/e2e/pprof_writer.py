# SPDX-License-Identifier: Apache-2.0
"""Profiles that tests make, in the form of the exporter's."""
import gzip
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "common"))
from pb import field, varint


class Profile:
    """of "cpu", "off_cpu" or "wall", or of another type and unit, from a time on (seconds since the epoch)"""

    def __init__(self, kind, time_s, seconds=10, of="nanoseconds"):
        self.strings = {"": 0}
        self.functions = {}
        self.mappings = {}
        self.time_s = time_s
        self.seconds = seconds
        self.out = [field(1, field(1, self.string(name)) + field(2, self.string(unit)))
                    for name, unit in (("samples", "count"), (kind, of))]

    def string(self, text):
        return self.strings.setdefault(text, len(self.strings))

    def mapping(self, path):
        if path not in self.mappings:
            self.mappings[path] = len(self.mappings) + 1
            self.out.append(field(3, field(1, self.mappings[path]) + field(5, self.string(path))))
        return self.mappings[path]

    def location(self, frame):
        """frame: "name@object", or a name without an object"""
        if frame not in self.functions:
            name, _, path = frame.partition("@")
            place = field(2, self.mapping(path)) if path else b""
            number = self.functions[frame] = len(self.functions) + 1
            self.out.append(field(5, field(1, number) + field(2, self.string(name))))
            self.out.append(field(4, field(1, number) + place + field(4, field(1, number))))
        return self.functions[frame]

    def sample(self, stack, count, ns, **labels):
        """The stack from its root on. Labels are texts, or numbers."""
        body = field(1, b"".join(varint(self.location(frame)) for frame in reversed(stack)))
        body += field(2, varint(count) + varint(ns))
        for key, value in labels.items():
            value = field(3, value) if isinstance(value, int) else field(2, self.string(value))
            body += field(3, field(1, self.string(key)) + value)
        self.out.append(field(2, body))

    def write(self, path):
        texts = sorted(self.strings, key=self.strings.get)
        body = b"".join(self.out) + b"".join(field(6, text.encode()) for text in texts)
        body += field(9, self.time_s * 10 ** 9) + field(10, self.seconds * 10 ** 9)
        with open(path, "wb") as file:
            file.write(gzip.compress(body, mtime=0))
