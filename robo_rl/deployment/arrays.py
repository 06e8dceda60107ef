"""Messages between a policy server and its clients: msgpack with NumPy arrays, in the format of openpi."""

import re
from collections.abc import Mapping
from typing import Any

import msgpack
import numpy as np

from robo_rl.core import DataError

MOST_BYTES = 64 << 20
"""Largest size of a message that is read [bytes]: sixteen pictures of a million pixels, which exceed any action
chunk.
"""
_KINDS = "biuf"
"""Kinds of arrays that are read: numbers. Arrays of other kinds may be much larger than their bytes in a message."""
_TYPE = re.compile(r"[<>=|]?(\?|[biuf]\d{1,2})")
"""Names of types that are read. NumPy parses other names as expressions, and raises any error of that parser."""


def packed(message: Mapping[str, Any]) -> bytes:
    """Return the bytes of a message of arrays, texts, numbers, lists and mappings."""
    data: bytes = msgpack.packb(message, default=_of_array)
    return data


def unpacked(data: bytes, where: str) -> dict[str, Any]:
    """Return the message in ``data``.

    Args:
        data: bytes of a message.
        where: origin of the message, for errors.

    Raises:
        DataError: if this is not a message, or an array in it is invalid.
    """
    try:
        message = msgpack.unpackb(data, object_hook=_array)
    except (ValueError, TypeError, KeyError, OverflowError, UnicodeDecodeError) as error:
        raise DataError(f"{where} is damaged, or no message of a policy server: {error}") from error
    if not isinstance(message, dict) or not all(isinstance(key, str) for key in message):
        raise DataError(f"{where}: expected a mapping of names, got {type(message).__name__}")
    return message


def _of_array(value: object) -> dict[bytes, Any]:
    if isinstance(value, np.ndarray) and value.dtype.kind in _KINDS:
        data = np.ascontiguousarray(value).tobytes()
        return {b"__ndarray__": True, b"data": data, b"dtype": value.dtype.str, b"shape": value.shape}
    if isinstance(value, np.generic) and value.dtype.kind in _KINDS:
        return {b"__npgeneric__": True, b"data": value.item(), b"dtype": value.dtype.str}
    raise TypeError(f"expected an array of numbers, got {type(value).__name__}")


def _array(mapping: dict[Any, Any]) -> Any:
    is_array = b"__ndarray__" in mapping
    if not is_array and b"__npgeneric__" not in mapping:
        return mapping
    name = mapping[b"dtype"]
    if not isinstance(name, str) or not _TYPE.fullmatch(name):
        raise ValueError(f"arrays of type {name!r:.40}; expected numbers")
    dtype = np.dtype(name)
    if not is_array:
        return dtype.type(mapping[b"data"])
    shape = mapping[b"shape"]
    if not isinstance(shape, list) or len(shape) > 8 or not all(type(size) is int and size >= 0 for size in shape):
        raise ValueError(f"an array of shape {shape!r:.40}")
    return np.frombuffer(mapping[b"data"], dtype).reshape(shape)
