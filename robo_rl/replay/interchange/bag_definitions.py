"""Message types that a bag defines: their size is checked before rosbags generates code for them.

Only the types of topics that are read are used.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from robo_rl.core import DataError

from .data import library

_TEXT_BYTES = 2**17
"""Largest length of a definition, including the types that it uses [characters]. The longest one of ROS 2 has 4000
without comments.
"""
_ALL_BYTES, _ALL_LINES = 2**18, 20_000
"""Largest length of the definitions of all topics that are read, in characters and lines. rosbags takes up to 10 us per
character and 0.1 ms per line.
"""
_IDL_FACTOR = 8
"""Number of characters that one character of IDL counts as."""
_IDL_LINES = {"@": 50, '"': 2, "const": 15}
"""Number of additional lines that a construct of IDL counts as, according to the time that rosbags takes for it."""
_MEMBERS = 1500
"""Largest number of fields of all messages that are read. Each string or message in a fixed array counts, because code
is generated for each of them, which takes a millisecond and 60 kB. An array of numbers counts once, because NumPy reads
it; three constants count as one field.
"""
_DEPTH = 32
"""Greatest nesting of messages; those of ROS 2 have at most seven levels."""
_OBJECTS = 2_000_000
"""Largest number of Python objects of one message. Each takes 100 to 200 bytes and a microsecond."""
_DENSITY = 4
"""Largest number of objects per byte. A message of a single byte is one object, and is rarely nested alone in another
message.
"""
_TEXT = 0.25
"""Number of objects that a string counts as."""

_SKIPPED = re.compile(r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'""", re.DOTALL)
"""Comments and string literals of IDL."""


@dataclass(frozen=True)
class _Extent:
    """Smallest size of an instance of a type, without the elements of its sequences.

    Attributes:
        size: number of bytes.
        objects: number of Python objects, with strings weighted.
        density: largest number of objects per byte of the elements of its sequences.
        depth: levels of nested messages.
    """

    size: int
    objects: float
    density: float
    depth: int


_BASE, _NAME, _ARRAY, _SEQUENCE = 1, 2, 3, 4
"""Kinds of fields, as rosbags numbers them (``Nodetype``)."""


class MessageTypes:
    """Types of the messages on some topics of a bag.

    Args:
        connections: connections of the topics, from rosbags.
        default: type store that is used if the bag defines no types.
        where: name of the bag, for error messages.

    Raises:
        DataError: if a definition is damaged or exceeds the limits.
    """

    def __init__(self, connections: Sequence[Any], default: Any, where: object) -> None:
        self._where = where
        self._measured: dict[str, _Extent | None] = {}
        defined = {
            connection.msgtype: connection for connection in connections if connection.msgdef.format.name != "NONE"
        }
        self._store = self._define(defined) if defined else default

    def decode(self, data: bytes, kind: str) -> Any:
        """Return the message in ``data``.

        Raises:
            DataError: if it could become too many objects.
            Exception: any error of rosbags on a damaged message.
        """
        extent = self._measure(kind)
        objects = int(extent.objects + extent.density * len(data))
        if objects > _OBJECTS or extent.density > _DENSITY:
            raise DataError(
                f"{self._where}: a {kind} of {len(data)} bytes may hold {objects} strings and messages, "
                f"{extent.density:g} per byte; at most {_OBJECTS} and {_DENSITY} per byte are supported. Leave out its "
                "topic"
            )
        return self._store.deserialize_cdr(data, kind)

    def _define(self, connections: Mapping[str, Any]) -> Any:
        _check_texts([connection.msgdef for connection in connections.values()], self._where)
        stores = library("rosbags.typesys")
        store = stores.get_typestore(stores.Stores.EMPTY)
        types: dict[str, Any] = {}
        try:
            for name, connection in connections.items():
                if _is_idl(connection.msgdef):
                    for part in _idl_parts(connection.msgdef.data):
                        types |= stores.get_types_from_idl(part)
                else:
                    types |= stores.get_types_from_msg(connection.msgdef.data, name)
            self._check_members(types)
            store.register(types)
            for name, connection in connections.items():
                if connection.digest and (computed := store.hash_rihs01(name)) != connection.digest:
                    raise ValueError(f"hash mismatch: {name} has {computed}, the bag states {connection.digest}")
        except DataError:
            raise
        except Exception as error:  # raised by the parser, which quotes the whole text, or by the generated code
            reason = f"{type(error).__name__}: {str(error)[:300]}"
            raise DataError(f"{self._where}: a message definition is damaged ({reason})") from error
        return store

    def _check_members(self, types: Mapping[str, Any]) -> None:
        members = 0
        for name, (constants, fields) in types.items():
            members += len(constants) // 3
            for field, description in fields:
                element, length = _unfold(description)
                if length < 1:
                    raise DataError(
                        f"{self._where}: {name}.{field} is an array of {length} elements, expected 1 or more"
                    )
                members += 1 if _is_number(element) else length
        if members > _MEMBERS:
            raise DataError(
                f"{self._where}: the imported messages have {members} members, counting each string and message of a "
                f"fixed-size array; at most {_MEMBERS} are supported. Import fewer topics (format.topics)"
            )

    def _measure(self, name: str) -> _Extent:
        if name not in self._measured:
            self._measured[name] = None
            self._measured[name] = self._sum(description for _, description in self._store.fielddefs[name][1])
        if (extent := self._measured[name]) is None:
            raise DataError(f"{self._where}: the definition of {name} contains {name} itself")
        if extent.depth > _DEPTH:
            raise DataError(
                f"{self._where}: {name} nests messages {extent.depth} levels deep; at most {_DEPTH} are supported"
            )
        return extent

    def _sum(self, fields: Iterable[Any]) -> _Extent:
        size, objects, density, depth = 0, 1.0, 0.0, 0
        for description in fields:
            element, length = _unfold(description)
            extent = self._element(element)
            depth, density = max(depth, extent.depth), max(density, extent.density)
            if description[0] == _SEQUENCE:
                size, objects = size + 4, objects + 1
                density = max(density, extent.objects / extent.size)
            else:
                size, objects = size + length * extent.size, objects + length * extent.objects
        return _Extent(max(1, size), objects, density, depth + 1)

    def _element(self, element: Any) -> _Extent:
        if element[0] == _NAME:
            return self._measure(element[1])
        if not _is_number(element):
            return _Extent(5, _TEXT, 0, 0)
        bits = re.search(r"\d+$", element[1][0])
        return _Extent(int(bits[0]) // 8 if bits else 1, 0, 0, 0)


def _check_texts(definitions: Sequence[Any], where: object) -> None:
    """Check the length of the definitions that rosbags will parse."""
    for definition in definitions:
        if not isinstance(definition.data, str):
            raise DataError(f"{where}: a message definition is not text; the bag is damaged")
        if len(definition.data) > _TEXT_BYTES:
            length = len(definition.data)
            raise DataError(
                f"{where}: a message definition has {length} characters; at most {_TEXT_BYTES} are supported"
            )
        if _is_idl(definition) and re.search(r"<<|\*", _SKIPPED.sub(" ", definition.data)):
            raise DataError(
                f"{where}: a message definition (IDL) computes constants with << or *; write out their values"
            )
    size = sum(len(definition.data) * (_IDL_FACTOR if _is_idl(definition) else 1) for definition in definitions)
    lines = sum(map(_lines, definitions))
    if size > _ALL_BYTES or lines > _ALL_LINES:
        raise DataError(
            f"{where}: the message definitions of the imported topics have {size} characters and {lines} lines, where "
            f"those of IDL count several times; at most {_ALL_BYTES} and {_ALL_LINES} are supported. Import fewer "
            "topics (format.topics)"
        )


def _lines(definition: Any) -> int:
    lines: int = definition.data.count("\n")
    if _is_idl(definition):
        lines += sum(count * definition.data.count(part) for part, count in _IDL_LINES.items())
    return lines


def _is_idl(definition: Any) -> bool:
    return bool(definition.format.name == "IDL")


def _idl_parts(text: str) -> list[str]:
    """Return the files whose concatenation is a definition."""
    separator = f"{'=' * 80}\n"
    if not text.startswith(f"{separator}IDL: "):
        return [text]
    return [part.partition("\n")[2] for part in text.split(separator)[1:]]


def _unfold(description: Any) -> tuple[Any, int]:
    """Return the element of a field and the number of elements, which is 1 for a sequence."""
    node, details = description
    if node == _ARRAY:
        return details[0], details[1]
    return (details[0], 1) if node == _SEQUENCE else (description, 1)


def _is_number(element: Any) -> bool:
    return bool(element[0] == _BASE and element[1][0] not in ("string", "wstring"))
