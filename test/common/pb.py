# SPDX-License-Identifier: Apache-2.0
"""Messages of protobuf, read and written field by field: for tests that check or make messages that no library would
make."""


def varint(n):
    """The bytes of a number."""
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def field(number, body):
    """The bytes of a field: a number, or bytes."""
    if isinstance(body, int):
        return varint(number << 3) + varint(body)
    return varint(number << 3 | 2) + varint(len(body)) + body


def read_varint(data, at):
    """The number at that offset, and the offset behind it."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def fields(data):
    """The fields of a message as (number, value); the value is a number, or bytes. Numbers of fixed length are read
    without a sign."""
    at = 0
    while at < len(data):
        key, at = read_varint(data, at)
        if key & 7 in (1, 5):
            length = 8 if key & 7 == 1 else 4
            if length > len(data) - at:
                raise ValueError("a number beyond the end")
            yield key >> 3, int.from_bytes(data[at:at + length], "little")
            at += length
            continue
        value, at = read_varint(data, at)
        if key & 7 == 2:
            if value > len(data) - at:
                raise ValueError("a length beyond the end")
            value, at = data[at:at + value], at + value
        elif key & 7 != 0:
            raise ValueError("wire type %d" % (key & 7))
        yield key >> 3, value


def packed(value):
    """The numbers of a repeated field, which may be packed or single."""
    if isinstance(value, int):
        return [value]
    numbers, at = [], 0
    while at < len(value):
        number, at = read_varint(value, at)
        numbers.append(number)
    return numbers
