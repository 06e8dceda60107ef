"""Message classes of a sourced ROS 2 distribution, filled from plain values."""

import array
import functools
import importlib
import os
import re
from typing import Any

import numpy as np
from rosidl_runtime_py.utilities import get_action, get_message, get_service

from robo_rl.core import ConfigError, DriverError, nearest

from ..api import Message

_SEQUENCE = re.compile(r"sequence<(?P<inner>[^,]+)(, \d+)?>|(?P<element>.+)\[\d+\]")
"""``sequence<double>``, ``sequence<double, 3>`` and ``double[9]``, as in ``get_fields_and_field_types``."""

_NUMBERS = {"float": "float32", "double": "float64"} | {
    f"{sign}int{bits}": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)
}


class RclpyTypes:
    """Message classes by name; see :class:`.api.MessageTypes`."""

    def __getitem__(self, name: str) -> type:
        message_class: type = _class(name)
        return message_class

    def __contains__(self, name: str) -> bool:
        try:
            _class(name)
        except ConfigError:
            return False
        return True

    def make(self, name: str, /, **fields: Any) -> Message:
        return _make(_class(name), name, fields)


@functools.cache
def _class(name: str) -> Any:
    """Return the class of a message, or of a part of a service or action.

    Raises:
        ConfigError: if the sourced distribution does not have it.
    """
    try:
        package, kind, base_name = name.split("/")
        if kind == "msg":
            return get_message(name)
        whole, _, part = base_name.rpartition("_")
        return getattr((get_service if kind == "srv" else get_action)(f"{package}/{kind}/{whole}"), part)
    except (ValueError, AttributeError, ImportError) as error:
        raise ConfigError(lacking(name, error)) from error


def lacking(name: str, error: Exception) -> str:
    """Return a message that the sourced workspace lacks the type ``name``, with advice."""
    package = name.partition("/")[0]
    distribution = os.environ.get("ROS_DISTRO") or "DISTRO"
    return (
        f"{name} is not in the sourced ROS 2 workspace ({error}). Install the package {package} (apt install "
        f"ros-{distribution}-{package.replace('_', '-')}) or build it, and source the workspace again; or use the "
        "definitions that robo-rl brings: implementation=dds (robot.implementation, virtual.implementation, "
        "steering.implementation)"
    )


def interface_class(name: str) -> Any:
    """Return the class of a service or action.

    Raises:
        DriverError: if the sourced distribution does not have it.
    """
    package, kind, base_name = name.split("/")
    try:
        return getattr(importlib.import_module(f"{package}.{kind}"), base_name)
    except (ImportError, AttributeError) as error:
        raise DriverError(lacking(name, error)) from error


def _make(kind: Any, name: str, fields: dict[str, Any]) -> Message:
    message = kind()
    types = kind.get_fields_and_field_types()
    for field, value in fields.items():
        if field not in types:
            raise ConfigError(f"{name} has no field {field!r}: {nearest(field, types)}")
        try:
            setattr(message, field, _convert(types[field], getattr(message, field), value))
        except (AssertionError, TypeError, ValueError, OverflowError) as error:
            raise ConfigError(f"{name}.{field}: {value!r} does not fit: {error}") from error
    return message


def _convert(description: str, default: Any, value: Any) -> Any:
    """Return ``value`` in the form that rclpy accepts for a field with the default value ``default``."""
    match = _SEQUENCE.fullmatch(description)
    if match is None:
        return _element(description, value)
    inner = match["inner"] or match["element"]
    if inner in _NUMBERS:
        raw = isinstance(value, bytes | bytearray | memoryview)
        numbers = np.frombuffer(value, _NUMBERS[inner]) if raw else np.asarray(value)
        changed = np.ascontiguousarray(numbers, _NUMBERS[inner]).reshape(-1)
        if changed.dtype.kind in "iu" and not np.array_equal(changed, numbers.reshape(-1)):
            raise OverflowError(f"expected numbers that {inner} holds")
        # rclpy checks the elements of anything other than an array.array individually.
        return array.array(default.typecode, changed.tobytes()) if isinstance(default, array.array) else changed
    return [_element(inner, item) for item in value]


def _element(description: str, value: Any) -> Any:
    if description in ("float", "double"):
        return float(value)
    if description == "boolean":
        return bool(value)
    if description == "octet":
        return value if isinstance(value, bytes) else bytes([value])
    if description in _NUMBERS:
        number = int(value)
        if number != value:
            raise ValueError("expected a whole number")
        return number
    if "/" in description and isinstance(value, dict):
        package, base_name = description.split("/")
        name = f"{package}/msg/{base_name}"
        return _make(_class(name), name, value)
    return value
