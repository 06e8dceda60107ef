"""Message classes out of rosbags' type stores, and their bytes on the wire (CDR)."""

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
"""Header of CDR: byte order and options."""

Description = Any
"""A field as rosbags describes it: (kind, what), nested."""
_Conversion = Callable[[Any], Any]
_Recipe = tuple[type[Any], dict[str, tuple[_Conversion, Any]]]
"""A class, and by field what its values are made with and of where none is given."""


def distribution_of_environment() -> str:
    """Return the ROS 2 distribution whose definitions are used: ``ROS_DISTRO``, else Jazzy.

    Raises:
        ConfigError: if ``ROS_DISTRO`` names one that is not known here.
    """
    name = os.environ.get("ROS_DISTRO") or DEFAULT_DISTRIBUTION
    if name not in DISTRIBUTIONS:
        raise ConfigError(
            f"ROS_DISTRO={name}: message definitions of {' and '.join(DISTRIBUTIONS)} are here. Set it to one of them, "
            "or source that distribution so that rclpy is used"
        )
    return name


class Places(NamedTuple):
    """Places in a message's CDR, in bytes after its header.

    Attributes:
        times: of each builtin_interfaces/msg/Time, in the order of the definition.
        numbers: of each float64, in that order: multiples of 8.
    """

    times: list[int]
    numbers: list[int]


class RosbagsTypes:
    """Message types of a distribution, those that robo-rl ships, and a user's own.

    Args:
        distribution: name of a ROS 2 distribution; None: that of the environment.
        folders: with a user's definitions, ``package/msg/Name.msg`` and so on under them.

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
            ConfigError: if it is not known.
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
        """Return a message, see :class:`.api.MessageTypes`."""
        kind, conversions = self._recipes.get(name) or self._recipe(name)
        for field in fields:
            if field not in conversions:
                raise ConfigError(f"{name} has no field {field!r}: {nearest(field, conversions)}")
        values = {}
        for field, (convert, default) in conversions.items():
            given = fields.get(field, default)
            try:
                values[field] = convert(given)
            except (TypeError, ValueError, OverflowError) as error:
                raise ConfigError(f"{name}.{field}: {given!r} does not fit: {error}") from error
        return kind(**values)

    def _recipe(self, name: str) -> _Recipe:
        """Return how messages of a type are made. Worked out once: a robot makes thousands a second."""
        defaults = self._defaults.get(name, {})
        described = {normalize_fieldname(field): description for field, description in self.fields(name)}
        conversions = {field: (self._conversion(what), defaults.get(field)) for field, what in described.items()}
        self._recipes[name] = self._store.types[name], conversions
        return self._recipes[name]

    def _conversion(self, description: Description) -> _Conversion:
        """Return what makes a field's value out of the one given, None where none is."""
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

    def _nested(self, name: str, given: Any) -> Message:
        if given is None or isinstance(given, dict):
            return self.make(name, **(given or {}))
        if not isinstance(given, self._store.types[name]):
            raise TypeError(f"expected {name} or a dictionary")
        return given

    def serialize(self, name: str, message: Message, prefix: bytes = b"") -> bytearray:
        """Return a message as little-endian CDR, padded to whole words as DDS wants it.

        Args:
            name: its type.
            message: the message.
            prefix: bytes between the CDR header and the message: a multiple of 8, so that alignment stays.

        Raises:
            ConfigError: if a field's value does not fit its type.
        """
        definition = self._store.get_msgdef(name)
        begin = len(prefix)
        try:
            end = definition.getsize_cdr(begin, message, self._store)
            data = bytearray(-(-(HEADER_BYTES + end) // 4) * 4)
            data[1] = 1
            data[HEADER_BYTES : HEADER_BYTES + begin] = prefix
            definition.serialize_cdr_le(memoryview(data)[HEADER_BYTES:], begin, message, self._store)
        except Exception as error:  # generated code fails in many ways on a value of a wrong type
            raise ConfigError(
                f"{name} cannot be sent: {error}. Make messages with node.types.make, which checks and converts fields"
            ) from error
        return data

    def deserialize(self, name: str, data: memoryview, skip: int = 0) -> Message:
        """Return the message in CDR ``data``; numeric arrays are views of it.

        Raises:
            DriverError: if the bytes are no message of that type.
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
        """Return where in the CDR of a message its times and float64 numbers stand."""
        places = Places([], [])
        self._place((Nodetype.NAME, name), message, 0, places)
        return places

    def _place(self, description: Description, value: Any, at: int, places: Places) -> int:
        """Note the times and numbers of a field that begins at ``at`` or after it; return where it ends."""
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
            ConfigError: if it is not known.
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


def _text(given: Any) -> str:
    if given is not None and not isinstance(given, str):
        raise TypeError("expected text")
    return given or ""


def _real(given: Any) -> float:
    return 0.0 if given is None else float(given)


def _whole(lowest: int, highest: int, is_byte: bool, given: Any) -> int:
    if given is None:
        return 0
    number = int(given[0] if isinstance(given, bytes) else given)
    if number != given and not isinstance(given, bytes):
        raise ValueError("expected a whole number")
    if not lowest <= number <= highest:
        raise OverflowError(f"expected {lowest} to {highest}")
    return number - 256 if is_byte and number > 127 else number  # rosbags packs it signed


def _all(convert: _Conversion, length: int, given: Any) -> list[Any]:
    return [convert(value) for value in ([None] * length if given is None else given)]


def _of_length(convert: _Conversion, length: int, exactly: bool, given: Any) -> Any:
    values = convert(given)
    if len(values) != length if exactly else len(values) > length:
        raise ValueError(f"expected {'' if exactly else 'at most '}{length} values")
    return values


def _numbers(dtype: np.dtype[Any], length: int, given: Any) -> Any:
    if given is None:
        return np.zeros(length, dtype)
    if isinstance(given, bytes | bytearray | memoryview):
        return np.frombuffer(given, dtype)
    array = np.asarray(given)
    if array.ndim == 0:
        raise TypeError("expected a sequence of numbers")
    if array.dtype != dtype:
        array = np.asarray(given, dtype) if not isinstance(given, np.ndarray) else _cast(array, dtype)
    return np.ascontiguousarray(array).reshape(-1)


def _cast(array: Any, dtype: np.dtype[Any]) -> Any:
    changed = array.astype(dtype)
    if dtype.kind in "iub" and not (changed == array).all():
        raise OverflowError(f"expected numbers that {dtype} holds")
    return changed


def _dtype(kind: str) -> np.dtype[Any]:
    names: dict[str, str] = {"char": "uint8", "byte": "uint8"}
    return np.dtype(names.get(kind, kind))
