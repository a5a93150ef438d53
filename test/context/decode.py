#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the message ProcessContext on standard input as JSON: resource and attributes."""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "common"))
from pb import fields


def messages(data):
    """Fields with a length; others are an error here."""
    for number, value in fields(data):
        if isinstance(value, int):
            raise ValueError(f"field {number} is a number")
        yield number, value


def any_value(data):
    """A string, or a list of strings."""
    for number, value in messages(data):
        if number == 1:
            return value.decode()
        if number == 5:
            return [any_value(element) for _, element in messages(value)]
    raise ValueError("neither a string nor a list")


def pair(data):
    """The key and the value of a KeyValue."""
    part = dict(messages(data))
    return part[1].decode(), any_value(part[2])


def main():
    """Decodes all of the input, or fails."""
    out = {"resource": {}, "attributes": {}}
    for number, value in messages(sys.stdin.buffer.read()):
        if number == 1:
            out["resource"].update(pair(element) for _, element in messages(value))
        elif number == 2:
            key, text = pair(value)
            out["attributes"][key] = text
        else:
            raise ValueError(f"field {number}")
    json.dump(out, sys.stdout)


main()
