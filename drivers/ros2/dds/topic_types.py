"""Types with which Cyclone DDS declares topics, derived from message definitions.

They only state which messages a topic carries, for other participants. rosbags serialises the messages.
"""

import functools
from pathlib import Path
from typing import Any

from cyclonedds.idl import IdlStruct, annotations, make_idl_struct, types
from rosbags.interfaces import Nodetype
from rosbags.typesys.base import normalize_fieldname

from robo_rl.core import ConfigError

from ..message_types import Description, RosbagsTypes

_BASE: dict[str, Any] = {
    "bool": bool,
    "byte": types.byte,
    "char": types.uint8,
    "float32": types.float32,
    "float64": types.float64,
    "string": str,
    **{f"{sign}int{bits}": getattr(types, f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)},
}
# The stubs of the binding lack the bracket syntax of these types.
_array: Any = types.array
_sequence: Any = types.sequence
_bounded_str: Any = types.bounded_str

_LONGEST_BOUND = 65535
"""Longest bound of a sequence that the binding supports; longer ones are declared unbounded."""

SERVICE_HEADER = {"guid": types.uint64, "sequence_number": types.int64}
"""Fields that rmw_cyclonedds places before requests and responses."""


def dds_type_name(name: str) -> str:
    """Return the DDS name of a ROS type: ``package::msg::dds_::Name_`` for ``package/msg/Name``."""
    package, kind, base_name = name.split("/")
    return f"{package}::{kind}::dds_::{base_name}_"


def ros_type_name(name: str) -> str | None:
    """Return the ROS name of a DDS type, or None if it is not a ROS type."""
    package, _, remainder = name.partition("::")
    kind, _, base_name = remainder.partition("::dds_::")
    return f"{package}/{kind}/{base_name.removesuffix('_')}" if kind and base_name.endswith("_") else None


def _carry_bytes(struct: Any) -> type[IdlStruct]:
    """Make the binding read and write samples of ``struct`` as plain bytes."""

    def serialize(sample: Any, *args: Any, **options: Any) -> bytes:
        data: bytes = sample.raw
        return data

    def deserialize(data: bytes, *args: Any, **options: Any) -> Any:
        sample = object.__new__(struct)
        sample.raw = data
        return sample

    struct.serialize = serialize
    struct.deserialize = staticmethod(deserialize)
    sample_type: type[IdlStruct] = struct
    return sample_type


class TopicTypes:
    """DDS types of messages, created once each.

    Args:
        messages: message definitions.
    """

    def __init__(self, messages: RosbagsTypes) -> None:
        self._messages = messages
        self._types: dict[str, type[IdlStruct]] = {}

    def __getitem__(self, name: str) -> type[IdlStruct]:
        """Return the type of a topic with messages of the type ``name``."""
        if name not in self._types:
            service = "/msg/" not in name and name.endswith(("_Request", "_Response"))
            self._types[name] = _carry_bytes(self._struct(name, SERVICE_HEADER if service else {}))
        return self._types[name]

    def _struct(self, name: str, header: dict[str, Any]) -> type[IdlStruct]:
        fields = {normalize_fieldname(field): self._of(kind) for field, kind in self._messages.fields(name)}
        typename = dds_type_name(name).replace("::", ".")
        return annotations.final(make_idl_struct(name.replace("/", "_"), typename, {**header, **fields}))

    def _of(self, description: Description) -> Any:
        kind, what = description
        if kind == Nodetype.BASE:
            base, bound = what
            if base not in _BASE:
                raise ConfigError(f"fields of type {base} are not supported without a ROS 2 installation")
            return _bounded_str[bound] if base == "string" and bound else _BASE[base]
        if kind == Nodetype.NAME:
            return self._struct(what, {})
        inner, length = what
        if kind == Nodetype.ARRAY:
            return _array[self._of(inner), length]
        return _sequence[self._of(inner), length] if 0 < length <= _LONGEST_BOUND else _sequence[self._of(inner)]


@functools.lru_cache
def shared_types(distribution: str, folders: tuple[Path, ...]) -> tuple[RosbagsTypes, TopicTypes]:
    """Return the types of a distribution and of the user's folders. Cached, because reading them is slow."""
    messages = RosbagsTypes(distribution, folders)
    return messages, TopicTypes(messages)
