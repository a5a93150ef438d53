#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the message ProcessContext on standard input as JSON: resource and attributes."""
import json
import sys


def fields(data):
    """Yields (number, bytes) of each field with a length; others are an error here."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 != 2:
            raise ValueError(f"wire type {key & 7}")
        length, at = varint(data, at)
        if length > len(data) - at:
            raise ValueError("a length beyond the end")
        yield key >> 3, data[at:at + length]
        at += length


def varint(data, at):
    """Returns the number and where it ends."""
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return number, at


def any_value(data):
    """A string, or a list of strings."""
    for number, value in fields(data):
        if number == 1:
            return value.decode()
        if number == 5:
            return [any_value(element) for _, element in fields(value)]
    raise ValueError("neither a string nor a list")


def pair(data):
    """The key and the value of a KeyValue."""
    part = dict(fields(data))
    return part[1].decode(), any_value(part[2])


def main():
    """Decodes all of the input, or fails."""
    out = {"resource": {}, "attributes": {}}
    for number, value in fields(sys.stdin.buffer.read()):
        if number == 1:
            out["resource"].update(pair(element) for _, element in fields(value))
        elif number == 2:
            key, text = pair(value)
            out["attributes"][key] = text
        else:
            raise ValueError(f"field {number}")
    json.dump(out, sys.stdout)


main()
