"""Parameters of a node: their types, values and changes."""

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from robo_rl.core import ConfigError, nearest

from ..api import Message, MessageTypes

_BOOL, _INTEGER, _DOUBLE, _STRING = range(1, 5)
_BYTE_ARRAY, _BOOL_ARRAY, _INTEGER_ARRAY, _DOUBLE_ARRAY, _STRING_ARRAY = range(5, 10)
_FIELDS = {
    _BOOL: "bool_value",
    _INTEGER: "integer_value",
    _DOUBLE: "double_value",
    _STRING: "string_value",
    _BYTE_ARRAY: "byte_array_value",
    _BOOL_ARRAY: "bool_array_value",
    _INTEGER_ARRAY: "integer_array_value",
    _DOUBLE_ARRAY: "double_array_value",
    _STRING_ARRAY: "string_array_value",
}
_NAMES = {kind: field.removesuffix("_value") for kind, field in _FIELDS.items()}


VALUE = "rcl_interfaces/msg/ParameterValue"
Change = Callable[[Any], None]
"""Called with a new value before it is set; rejects the value by raising ConfigError."""


def kind_of(value: Any) -> int:
    """Return the number of a value's type (rcl_interfaces/msg/ParameterType).

    Raises:
        TypeError: if the value cannot be a parameter.
    """
    match value:
        case bool():
            return _BOOL
        case int():
            return _INTEGER
        case float():
            return _DOUBLE
        case str():
            return _STRING
        case bytes():
            return _BYTE_ARRAY
        case list() | tuple():
            kinds = {kind_of(item) for item in value}
            if kinds == {_INTEGER, _DOUBLE}:
                kinds = {_DOUBLE}
            arrays = {_BOOL: _BOOL_ARRAY, _INTEGER: _INTEGER_ARRAY, _DOUBLE: _DOUBLE_ARRAY, _STRING: _STRING_ARRAY}
            if len(kinds) <= 1 and kinds <= arrays.keys():
                return arrays[kinds.pop()] if kinds else _STRING_ARRAY
    raise TypeError(f"{value!r} can be no parameter: expected a bool, number, text, bytes, or a list of one of them")


def message_of(value: Any) -> dict[str, Any]:
    """Return the fields of a :data:`VALUE` message."""
    kind = kind_of(value)
    return {"type": kind, _FIELDS[kind]: value}


def value_in(message: Message) -> Any:
    """Return the value in a :data:`VALUE` message; None if it has none, which requests to remove the parameter."""
    if message.type not in _FIELDS:
        return None
    value = getattr(message, _FIELDS[message.type])
    if isinstance(value, np.ndarray):
        return value.tobytes() if message.type == _BYTE_ARRAY else value.tolist()
    return value


class Parameters:
    """Parameters of one node; thread-safe.

    Args:
        types: message definitions.
        overrides: values that override the defaults of declared parameters.
        announce: called with ``new_parameters`` or ``changed_parameters``, and values by name.
    """

    def __init__(
        self, types: MessageTypes, overrides: Mapping[str, Any], announce: Callable[[str, dict[str, Any]], None]
    ) -> None:
        self._types = types
        self._announce = announce
        self._overrides = dict(overrides)
        self._lock = threading.RLock()  # a change may read other parameters
        self._values: dict[str, Any] = {}
        self._changes: dict[str, Change] = {}
        self._read_only: set[str] = set()

    def declare(self, name: str, default: Any, change: Change | None = None, read_only: bool = False) -> Any:
        """Declare a parameter and return its value; see :meth:`.api.Parameters.declare` for the arguments.

        Raises:
            ConfigError: if it is declared already, or its override has another type than the default.
        """
        with self._lock:
            if name in self._values:
                raise ConfigError(f"parameter {name!r} is declared already")
            value = self._overrides.get(name, default)
            try:
                converted = _convert(default, value)
            except TypeError as error:
                raise ConfigError(f"parameter {name!r}: {error}") from error
            self._types.make(VALUE, **message_of(converted))  # raises an error if the value cannot be sent
            self._values[name] = converted
            if change is not None:
                self._changes[name] = change
            if read_only:
                self._read_only.add(name)
        self._announce("new_parameters", self.find([name]))
        return converted

    def get(self, name: str) -> Any:
        """Return a parameter's value.

        Raises:
            ConfigError: if it was not declared.
        """
        with self._lock:
            if name not in self._values:
                raise ConfigError(f"parameter {name!r} was not declared: {nearest(name, self._values)}")
            return self._values[name]

    def names(self) -> list[str]:
        """Return the names of all parameters, sorted."""
        with self._lock:
            return sorted(self._values)

    def is_read_only(self, name: str) -> bool:
        """Return whether a parameter is read-only."""
        return name in self._read_only

    def find(self, names: Sequence[str]) -> dict[str, Any]:
        """Return values by name; empty if any of the names was not declared, as in rclcpp and rclpy."""
        with self._lock:
            return {name: self._values[name] for name in names} if self._values.keys() >= set(names) else {}

    def set_each(self, values: Sequence[tuple[str, Any]]) -> list[str]:
        """Set parameters independently; return for each the reason for its rejection, empty if it was accepted."""
        reasons = []
        with self._lock:
            for name, value in values:
                converted, reason = self._check(name, value)
                reasons.append(reason or self._set(name, converted))
        self._announce_changes([name for (name, _), reason in zip(values, reasons, strict=True) if not reason])
        return reasons

    def set_together(self, values: Sequence[tuple[str, Any]]) -> list[str]:
        """Set all parameters, or none if one is rejected; return the reasons, empty if none was rejected."""
        previous: dict[str, Any] = {}
        with self._lock:
            checked = [(name, *self._check(name, value)) for name, value in values]
            reasons = [f"{name}: {reason}" for name, _, reason in checked if reason]
            for name, converted, _ in () if reasons else checked:
                old = self._values[name]
                if reason := self._set(name, converted):
                    reasons.append(f"{name}: {reason}")
                    break
                previous.setdefault(name, old)
            for name, old in previous.items() if reasons else ():
                self._set(name, old)
        self._announce_changes([] if reasons else list(previous))
        return reasons

    def _check(self, name: str, value: Any) -> tuple[Any, str]:
        """Return the value to set, or None, and the reason why ``value`` is rejected; a value of None is a removal."""
        if name not in self._values:
            return None, f"{name} was not declared"
        if self.is_read_only(name):
            return None, f"{name} is read-only"
        if value is None:
            return None, f"{name} may not be removed"
        try:
            return _convert(self._values[name], value), ""
        except TypeError as error:
            return None, str(error)

    def _set(self, name: str, value: Any) -> str:
        """Set a parameter to a value of its type; return the reason for a rejection, empty if it was accepted."""
        try:
            if name in self._changes:
                self._changes[name](value)
        except ConfigError as error:
            return str(error)
        self._values[name] = value
        return ""

    def _announce_changes(self, names: Sequence[str]) -> None:
        """Announce changed values. Called without the lock, which readers of parameters need."""
        if names:
            self._announce("changed_parameters", self.find(names))


def _convert(current: Any, value: Any) -> Any:
    """Return ``value`` converted to the type of the value ``current``."""
    expected, actual = kind_of(current), kind_of(value)
    if expected == _DOUBLE and actual == _INTEGER:
        return float(value)
    if expected == _DOUBLE_ARRAY and actual in (_INTEGER_ARRAY, _DOUBLE_ARRAY):
        return [float(item) for item in value]
    if expected != actual and not (isinstance(value, list | tuple) and not value and expected >= _BYTE_ARRAY):
        raise TypeError(f"expected {_NAMES[expected]}, got {_NAMES[actual]}")
    return value
