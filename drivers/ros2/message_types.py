"""Message classes from rosbags' type stores, and their serialisation (CDR)."""

import difflib
import os
import struct
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rosbags.interfaces import Nodetype
from rosbags.serde import SerdeError
from rosbags.typesys import Stores, get_typestore
from rosbags.typesys.base import normalize_fieldname

from robo_rl.core import ConfigError, DriverError, nearest

from .api import TIME, Message
from .definitions import KNOWN_DEFAULTS, SHIPPED, register
from .type_descriptions import describe, hash_of

DISTRIBUTIONS = {
    "humble": Stores.ROS2_HUMBLE,
    "jazzy": Stores.ROS2_JAZZY,
}
DEFAULT_DISTRIBUTION = "jazzy"

_WHOLE = {"byte", "char"} | {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
HEADER_BYTES = 4
"""Length of the CDR header: byte order and options."""

Description = Any
"""Description of a field in rosbags: (kind, what), nested."""
_Conversion = Callable[[Any], Any]
_Recipe = tuple[type[Any], dict[str, tuple[_Conversion, Any]]]
"""Class of a message, with the conversion and default of each field."""


def distribution_of_environment() -> str:
    """Return the ROS 2 distribution that provides the definitions: ``ROS_DISTRO``, otherwise Jazzy.

    Raises:
        ConfigError: if ``ROS_DISTRO`` names an unsupported distribution.
    """
    name = os.environ.get("ROS_DISTRO") or DEFAULT_DISTRIBUTION
    if name not in DISTRIBUTIONS:
        raise ConfigError(
            f"ROS_DISTRO={name}: message definitions of {' and '.join(DISTRIBUTIONS)} are here. Set it to one of them, "
            "or source that distribution so that rclpy is used"
        )
    return name


class Places(NamedTuple):
    """Offsets in the CDR of a message, in bytes after its header.

    Attributes:
        times: offset of each builtin_interfaces/msg/Time, in the order of the definition.
        numbers: offset of each float64, in the same order; multiples of 8.
    """

    times: list[int]
    numbers: list[int]


class RosbagsTypes:
    """Message types of a distribution, of robo-rl, and of the user.

    Args:
        distribution: name of a ROS 2 distribution; None: that of the environment.
        folders: folders with the user's definitions, such as ``package/msg/Name.msg``.

    Raises:
        ConfigError: if a definition cannot be used.
    """

    def __init__(self, distribution: str | None = None, folders: Iterable[str | Path] = ()) -> None:
        self.distribution = distribution or distribution_of_environment()
        self._store = get_typestore(DISTRIBUTIONS[self.distribution])
        shipped = (SHIPPED / "common", SHIPPED / self.distribution)
        self._defaults = KNOWN_DEFAULTS | register(self._store, [*shipped, *(Path(folder) for folder in folders)])
        self._recipes: dict[str, _Recipe] = {}
        self._hashes: dict[str, str] = {}

    def __getitem__(self, name: str) -> type:
        self.fields(name)
        return self._store.types[name]

    def __contains__(self, name: str) -> bool:
        return name in self._store.fielddefs

    def names(self) -> list[str]:
        """Return the names of all types."""
        return sorted(self._store.fielddefs)

    def fields(self, name: str) -> list[tuple[str, Description]]:
        """Return the fields of a type: (name, description).

        Raises:
            ConfigError: if the type is unknown.
        """
        if name not in self._store.fielddefs:
            close = difflib.get_close_matches(name, self._store.fielddefs, 3)
            hint = f": did you mean {' or '.join(close)}?" if close else "."
            raise ConfigError(
                f"message type {name!r} is not known{hint} Definitions of your own go into a folder, as "
                "package/msg/Name.msg, that is given as interfaces"
            )
        return list(self._store.fielddefs[name][1])

    def make(self, name: str, /, **fields: Any) -> Message:
        """Return a message; see :class:`.api.MessageTypes`."""
        kind, conversions = self._recipes.get(name) or self._recipe(name)
        for field in fields:
            if field not in conversions:
                raise ConfigError(f"{name} has no field {field!r}: {nearest(field, conversions)}")
        values = {}
        for field, (convert, default) in conversions.items():
            value = fields.get(field, default)
            try:
                values[field] = convert(value)
            except (TypeError, ValueError, OverflowError) as error:
                raise ConfigError(f"{name}.{field}: {value!r} does not fit: {error}") from error
        return kind(**values)

    def _recipe(self, name: str) -> _Recipe:
        """Return the class and conversions of a type. Cached, since a robot makes thousands of messages per second."""
        defaults = self._defaults.get(name, {})
        described = {normalize_fieldname(field): description for field, description in self.fields(name)}
        conversions = {field: (self._conversion(what), defaults.get(field)) for field, what in described.items()}
        self._recipes[name] = self._store.types[name], conversions
        return self._recipes[name]

    def _conversion(self, description: Description) -> _Conversion:
        """Return the conversion of a field's value; it converts None to the default value."""
        kind, what = description
        if kind == Nodetype.BASE:
            return _scalar(what[0])
        if kind == Nodetype.NAME:
            return partial(self._nested, what)
        inner, length = what
        if inner[0] == Nodetype.BASE and inner[1][0] != "string":
            values = partial(_numbers, _dtype(inner[1][0]), length if kind == Nodetype.ARRAY else 0)
        else:
            values = partial(_all, self._conversion(inner), length if kind == Nodetype.ARRAY else 0)
        return partial(_of_length, values, length, kind == Nodetype.ARRAY) if length else values

    def _nested(self, name: str, value: Any) -> Message:
        if value is None or isinstance(value, dict):
            return self.make(name, **(value or {}))
        if not isinstance(value, self._store.types[name]):
            raise TypeError(f"expected {name} or a dictionary")
        return value

    def serialize(self, name: str, message: Message, prefix: bytes = b"") -> bytearray:
        """Return a message as little-endian CDR, padded to whole words as DDS requires.

        Args:
            name: type of the message.
            message: the message.
            prefix: bytes between the CDR header and the message. Their number is a multiple of 8, which preserves
                alignment.

        Raises:
            ConfigError: if a field's value does not match its type.
        """
        definition = self._store.get_msgdef(name)
        begin = len(prefix)
        try:
            end = definition.getsize_cdr(begin, message, self._store)
            data = bytearray(-(-(HEADER_BYTES + end) // 4) * 4)
            data[1] = 1
            data[HEADER_BYTES : HEADER_BYTES + begin] = prefix
            definition.serialize_cdr_le(memoryview(data)[HEADER_BYTES:], begin, message, self._store)
        except Exception as error:  # generated code raises many kinds of exceptions for values of a wrong type
            raise ConfigError(
                f"{name} cannot be sent: {error}. Make messages with node.types.make, which checks and converts fields"
            ) from error
        return data

    def deserialize(self, name: str, data: memoryview, skip: int = 0) -> Message:
        """Return the message in the CDR ``data``. Arrays of numbers are views of it.

        Raises:
            DriverError: if the bytes are not a message of that type.
        """
        definition = self._store.get_msgdef(name)
        if len(data) < HEADER_BYTES + skip or data[0] != 0 or data[1] > 1:
            raise DriverError(f"{name} was received in an encoding that is not plain CDR: {bytes(data[:4]).hex()}")
        decode = definition.deserialize_cdr_le if data[1] else definition.deserialize_cdr_be
        try:
            message, end = decode(data[HEADER_BYTES:], skip, definition.cls, self._store)
        except (SerdeError, struct.error, ValueError, LookupError, ArithmeticError) as error:
            raise DriverError(f"{name} was received damaged: {error}") from error
        if end + HEADER_BYTES > len(data):
            raise DriverError(f"{name} was received incomplete: {len(data)} bytes of {end + HEADER_BYTES}")
        return message

    def places(self, name: str, message: Message) -> Places:
        """Return the offsets of times and float64 numbers in the CDR of a message."""
        places = Places([], [])
        self._place((Nodetype.NAME, name), message, 0, places)
        return places

    def _place(self, description: Description, value: Any, at: int, places: Places) -> int:
        """Record the times and numbers of a field that begins at ``at`` or later; return the offset of its end."""
        kind, what = description
        if kind == Nodetype.NAME:
            if what == TIME:
                places.times.append(_aligned(at, 4))
            for field, inner in self.fields(what):
                at = self._place(inner, getattr(value, normalize_fieldname(field)), at, places)
            return at
        if kind == Nodetype.BASE:
            if what[0] == "string":
                return _aligned(at, 4) + 4 + len(value.encode()) + 1
            size = _dtype(what[0]).itemsize
            at = _aligned(at, size)
            if what[0] == "float64":
                places.numbers.append(at)
            return at + size
        if kind == Nodetype.SEQUENCE:
            at = _aligned(at, 4) + 4
        for item in value:
            at = self._place(what[0], item, at, places)
        return at

    def hash(self, name: str) -> str:
        """Return the type's hash in ROS 2's form ``RIHS01_...`` (REP 2016)."""
        if name not in self._hashes:
            self._hashes[name] = hash_of(self.describe(name))
        return self._hashes[name]

    def describe(self, name: str) -> dict[str, Any]:
        """Return the fields of type_description_interfaces/msg/TypeDescription for a type.

        Raises:
            ConfigError: if the type is unknown.
        """
        self.fields(name)
        return describe(self._store, name)


def _aligned(at: int, size: int) -> int:
    return -(-at // size) * size


def _scalar(kind: str) -> _Conversion:
    if kind == "string":
        return _text
    if kind == "bool":
        return bool
    if kind not in _WHOLE:
        return _real
    limits = np.iinfo(_dtype(kind))
    return partial(_whole, limits.min, limits.max, kind == "byte")


def _text(value: Any) -> str:
    if value is not None and not isinstance(value, str):
        raise TypeError("expected text")
    return value or ""


def _real(value: Any) -> float:
    return 0.0 if value is None else float(value)


def _whole(lowest: int, highest: int, is_byte: bool, value: Any) -> int:
    if value is None:
        return 0
    number = int(value[0] if isinstance(value, bytes) else value)
    if number != value and not isinstance(value, bytes):
        raise ValueError("expected a whole number")
    if not lowest <= number <= highest:
        raise OverflowError(f"expected {lowest} to {highest}")
    return number - 256 if is_byte and number > 127 else number  # rosbags packs the byte as a signed number


def _all(convert: _Conversion, length: int, values: Any) -> list[Any]:
    return [convert(value) for value in ([None] * length if values is None else values)]


def _of_length(convert: _Conversion, length: int, exactly: bool, value: Any) -> Any:
    values = convert(value)
    if len(values) != length if exactly else len(values) > length:
        raise ValueError(f"expected {'' if exactly else 'at most '}{length} values")
    return values


def _numbers(dtype: np.dtype[Any], length: int, value: Any) -> Any:
    if value is None:
        return np.zeros(length, dtype)
    if isinstance(value, bytes | bytearray | memoryview):
        return np.frombuffer(value, dtype)
    array = np.asarray(value)
    if array.ndim == 0:
        raise TypeError("expected a sequence of numbers")
    if array.dtype != dtype:
        array = np.asarray(value, dtype) if not isinstance(value, np.ndarray) else _cast(array, dtype)
    return np.ascontiguousarray(array).reshape(-1)


def _cast(array: Any, dtype: np.dtype[Any]) -> Any:
    changed = array.astype(dtype)
    if dtype.kind in "iub" and not (changed == array).all():
        raise OverflowError(f"expected numbers that {dtype} holds")
    return changed


def _dtype(kind: str) -> np.dtype[Any]:
    names: dict[str, str] = {"char": "uint8", "byte": "uint8"}
    return np.dtype(names.get(kind, kind))
