"""Type descriptions and their hashes (REP 2016)."""

import hashlib
import json
from typing import Any

from rosbags.interfaces import Nodetype
from rosbags.typesys.store import Typestore

Described = dict[str, Any]
"""Fields of a message of type_description_interfaces."""

_WHOLE = [f"{sign}int{bits}" for bits in (8, 16, 32, 64) for sign in ("", "u")]
_NESTED, _BOUNDED_STRING = 1, 21
_NUMBERS = {
    "char": 3,  # a uint8, as in rosidl; FIELD_TYPE_CHAR is the char of IDL
    "bool": 15,
    "byte": 16,
    "string": 17,
    **{name: number for number, name in enumerate([*_WHOLE, "float32", "float64"], 2)},
}
"""Constants FIELD_TYPE_... of type_description_interfaces/msg/FieldType."""
_ARRAY, _BOUNDED, _UNBOUNDED = 48, 96, 144
"""Offsets of these constants for arrays and sequences."""
_EMPTY = [("structure_needs_at_least_one_member", (Nodetype.BASE, ("uint8", 0)))]


def describe(store: Typestore, name: str) -> Described:
    """Return the fields of type_description_interfaces/msg/TypeDescription for a type, without default values."""
    descriptions: dict[str, Described] = {}
    _add(store, name, descriptions)
    return {
        "type_description": descriptions.pop(name),
        "referenced_type_descriptions": [descriptions[referenced] for referenced in sorted(descriptions)],
    }


def hash_of(description: Described) -> str:
    """Return a type's hash in ROS 2's form ``RIHS01_...``: that of its description as JSON, in this order of keys."""
    return f"RIHS01_{hashlib.sha256(json.dumps(description).encode()).hexdigest()}"


def _add(store: Typestore, name: str, descriptions: dict[str, Described]) -> None:
    """Add the description of a type, and those of all types that it refers to, to ``descriptions``."""
    if name in descriptions:
        return
    descriptions[name] = {}
    fields = [
        {"name": field, "type": _field(store, what, descriptions)} for field, what in store.fielddefs[name][1] or _EMPTY
    ]
    descriptions[name] = {"type_name": name, "fields": fields}


def _field(store: Typestore, description: Any, descriptions: dict[str, Described]) -> Described:
    """Return the fields of type_description_interfaces/msg/FieldType."""
    kind, what = description
    many, capacity = 0, 0
    if kind in (Nodetype.ARRAY, Nodetype.SEQUENCE):
        (kind, what), capacity = what
        many = _ARRAY if description[0] == Nodetype.ARRAY else _BOUNDED if capacity else _UNBOUNDED
    nested, longest = "", 0
    if kind == Nodetype.NAME:
        number, nested = _NESTED, what
        _add(store, nested, descriptions)
    else:
        base, longest = what
        number = _BOUNDED_STRING if longest else _NUMBERS[base]
    return {"type_id": number + many, "capacity": capacity, "string_capacity": longest, "nested_type_name": nested}
