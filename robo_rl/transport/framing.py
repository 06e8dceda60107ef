"""Large fields of protobuf messages, joined to the rest with one copy instead of three.

A message is its fields behind each other, in any order, so bytes that are appended to it are one more field:
https://protobuf.dev/programming-guides/encoding/#length-types.
"""

from collections.abc import Iterable

_LENGTH_DELIMITED = 2


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


def _varint(value: int) -> bytes:
    data = bytearray()
    while value > 0x7F:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    data.append(value)
    return bytes(data)
