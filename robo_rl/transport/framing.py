"""Large fields of protobuf messages, joined to the rest with one copy instead of three, and read without any.

A message is its fields behind each other, in any order, so bytes that are appended to it are one more field:
https://protobuf.dev/programming-guides/encoding/#length-types.
"""

from collections.abc import Iterable

from google.protobuf.message import DecodeError

_VARINT, _LENGTH_DELIMITED = 0, 2
_FIXED = {1: 8, 5: 4}
"""Bytes of a field by its other wire types."""
_LARGEST_SHIFT = 63
"""Of the bits in a number's last byte."""


def join_fields(message: bytes, fields: Iterable[tuple[int, bytes | memoryview]]) -> bytes:
    """Return ``message`` with more fields of type ``bytes``.

    Args:
        message: serialised.
        fields: number and value of each, the values as bytes.
    """
    parts: list[bytes | memoryview] = [message]
    for number, value in fields:
        parts += _varint(number << 3 | _LENGTH_DELIMITED) + _varint(len(value)), value
    return b"".join(parts)


def split_fields(message: bytes | memoryview, *numbers: int) -> tuple[bytes, list[list[memoryview]]]:
    """Undo :func:`join_fields`: return the message without its fields of type ``bytes`` with ``numbers``, and those.

    Args:
        message: serialised; the fields are views of it.
        numbers: of the fields.

    Raises:
        DecodeError: if these bytes are no message.
    """
    data = memoryview(message)
    values: list[list[memoryview]] = [[] for _ in numbers]
    wanted = {number << 3 | _LENGTH_DELIMITED: found for number, found in zip(numbers, values, strict=True)}
    rest: list[memoryview] = []
    position, kept, end = 0, 0, len(data)
    try:
        while position < end:
            start = position
            tag, position = _read_varint(data, position)
            kind = tag & 7
            if kind == _LENGTH_DELIMITED:
                size, position = _read_varint(data, position)
            elif kind == _VARINT:
                size = _read_varint(data, position)[1] - position
            else:
                size = _FIXED[kind]
            position += size
            if (found := wanted.get(tag)) is not None:
                found.append(data[position - size : position])
                if kept < start:
                    rest.append(data[kept:start])
                kept = position
    except (IndexError, KeyError):
        raise DecodeError("a field is cut off, or of a type that is none of ours") from None
    if position > end:
        raise DecodeError("a field is longer than its message")
    rest.append(data[kept:])
    return b"".join(rest), values


def _varint(value: int) -> bytes:
    data = bytearray()
    while value > 0x7F:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    data.append(value)
    return bytes(data)


def _read_varint(data: memoryview, position: int) -> tuple[int, int]:
    """Return the number at ``position``, and the position after it; IndexError where the data ends before."""
    byte = data[position]
    position += 1
    if byte < 0x80:
        return byte, position
    value, shift = byte & 0x7F, 7
    while byte >= 0x80:
        if shift > _LARGEST_SHIFT:
            raise DecodeError("a number has no end")
        byte = data[position]
        value |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
    return value, position
