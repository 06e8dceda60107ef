"""Large fields of protobuf messages, appended with one copy instead of three and read without copying.

A serialised message is the concatenation of its fields in any order, so encoded bytes that are appended to it are
another field: https://protobuf.dev/programming-guides/encoding/#length-types.
"""

from collections.abc import Iterable

from google.protobuf.message import DecodeError

_VARINT, _LENGTH_DELIMITED = 0, 2
_FIXED = {1: 8, 5: 4}
"""Size of fields by wire type, for the types with a fixed size [bytes]."""
MOST_FIELDS = 1 << 16
"""Largest number of fields removed from a message. An empty field takes two bytes of the message, but two hundred as a
view.
"""
_LARGEST_SHIFT = 63
"""Shift of the last possible byte of a number [bits]."""


def join_fields(message: bytes, fields: Iterable[tuple[int, bytes | memoryview]]) -> bytes:
    """Return ``message`` with more fields of type ``bytes``.

    Args:
        message: serialised message.
        fields: number and value of each field.
    """
    parts: list[bytes | memoryview] = [message]
    for number, value in fields:
        parts += _varint(number << 3 | _LENGTH_DELIMITED) + _varint(len(value)), value
    return b"".join(parts)


def split_fields(message: bytes | memoryview, *numbers: int) -> tuple[bytes, list[list[memoryview]]]:
    """Undo :func:`join_fields`: remove the fields of type ``bytes`` with ``numbers`` from a message.

    Args:
        message: serialised message.
        numbers: numbers of the fields to remove.

    Returns:
        The message without these fields, and for each number the values of its fields, as views of ``message``.

    Raises:
        DecodeError: if the bytes are not a valid message, or more than :data:`MOST_FIELDS` fields have these numbers.
    """
    data = memoryview(message)
    values: list[list[memoryview]] = [[] for _ in numbers]
    values_by_tag = {
        number << 3 | _LENGTH_DELIMITED: field_values for number, field_values in zip(numbers, values, strict=True)
    }
    remainder: list[memoryview] = []
    position, kept_start, end, removed = 0, 0, len(data), 0
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
            if (field_values := values_by_tag.get(tag)) is not None:
                if (removed := removed + 1) > MOST_FIELDS:
                    raise DecodeError(f"more than {MOST_FIELDS} fields")
                field_values.append(data[position - size : position])
                if kept_start < start:
                    remainder.append(data[kept_start:start])
                kept_start = position
    except (IndexError, KeyError):
        raise DecodeError("a field is cut off, or of an unknown type") from None
    if position > end:
        raise DecodeError("a field is longer than its message")
    remainder.append(data[kept_start:])
    return b"".join(remainder), values


def _varint(value: int) -> bytes:
    data = bytearray()
    while value > 0x7F:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    data.append(value)
    return bytes(data)


def _read_varint(data: memoryview, position: int) -> tuple[int, int]:
    """Return the number at ``position`` and the position after it; raise IndexError if the data ends too early."""
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
