"""Types as Cyclone DDS declares topics of them, made from message definitions.

They only tell other participants what a topic carries: the bytes themselves are rosbags'.
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
# The binding's own stubs do not know that these are made by brackets.
_array: Any = types.array
_sequence: Any = types.sequence
_bounded_str: Any = types.bounded_str

_LONGEST_BOUND = 65535
"""Longest bound of a sequence in the binding; longer ones are declared unbounded."""

SERVICE_HEADER = {"guid": types.uint64, "sequence_number": types.int64}
"""Fields that rmw_cyclonedds puts before requests and responses."""


def dds_type_name(name: str) -> str:
    """Return the DDS name of a ROS type: ``package/msg/Name`` is ``package::msg::dds_::Name_``."""
    package, kind, own = name.split("/")
    return f"{package}::{kind}::dds_::{own}_"


def ros_type_name(name: str) -> str | None:
    """Return the ROS name of a DDS type, or None where it is no ROS type."""
    package, _, rest = name.partition("::")
    kind, _, own = rest.partition("::dds_::")
    return f"{package}/{kind}/{own.removesuffix('_')}" if kind and own.endswith("_") else None


def _carry_bytes(struct: Any) -> type[IdlStruct]:
    """Make samples of ``struct`` carry bytes as they are, for the binding's own reading and writing."""

    def serialize(sample: Any, *args: Any, **options: Any) -> bytes:
        data: bytes = sample.raw
        return data

    def deserialize(data: bytes, *args: Any, **options: Any) -> Any:
        sample = object.__new__(struct)
        sample.raw = data
        return sample

    struct.serialize = serialize
    struct.deserialize = staticmethod(deserialize)
    made: type[IdlStruct] = struct
    return made


class TopicTypes:
    """The DDS types of messages, each made once.

    Args:
        messages: the definitions.
    """

    def __init__(self, messages: RosbagsTypes) -> None:
        self._messages = messages
        self._made: dict[str, type[IdlStruct]] = {}

    def __getitem__(self, name: str) -> type[IdlStruct]:
        """Return the type of the topic that carries messages of type ``name``."""
        if name not in self._made:
            service = "/msg/" not in name and name.endswith(("_Request", "_Response"))
            self._made[name] = _carry_bytes(self._struct(name, SERVICE_HEADER if service else {}))
        return self._made[name]

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
    """Return the types of a distribution and a user's folders: read once in a process, as that takes a while."""
    messages = RosbagsTypes(distribution, folders)
    return messages, TopicTypes(messages)
