"""Parameters of a node, the six services by which ``ros2 param`` and others reach them, and news of their changes."""

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from robo_rl.core import ConfigError, nearest

from ..api import Message
from ..message_types import RosbagsTypes

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


EVENT = "rcl_interfaces/msg/ParameterEvent"
Change = Callable[[Any], None]
"""Is told a new value before it is taken, and refuses it by a ConfigError."""


def kind_of(value: Any) -> int:
    """Return the number of a value's type (rcl_interfaces/msg/ParameterType).

    Raises:
        TypeError: if it can be no parameter.
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


class Parameters:
    """The parameters of one node. May be used by several threads.

    Args:
        types: message definitions.
        overrides: values that take the place of declared defaults.
        tell: called with ``new_parameters`` or ``changed_parameters``, fields of :data:`EVENT`.
    """

    def __init__(self, types: RosbagsTypes, overrides: Mapping[str, Any], tell: Callable[..., None]) -> None:
        self._types = types
        self._tell = tell
        self._overrides = dict(overrides)
        self._lock = threading.RLock()  # what is told of a change may read other parameters
        self._values: dict[str, Any] = {}
        self._changes: dict[str, Change] = {}
        self._read_only: set[str] = set()

    def declare(self, name: str, default: Any, change: "Change | None" = None, read_only: bool = False) -> Any:
        """Declare a parameter and return its value; arguments as of :meth:`Node.declare_parameter`.

        Raises:
            ConfigError: if it is declared already, or the value given has another type than the default.
        """
        with self._lock:
            if name in self._values:
                raise ConfigError(f"parameter {name!r} is declared already")
            value = self._overrides.get(name, default)
            try:
                fitting = self._fitting(default, value)
            except TypeError as error:
                raise ConfigError(f"parameter {name!r}: {error}") from error
            self._types.make("rcl_interfaces/msg/ParameterValue", **_message_of(fitting))  # it can be told to others
            self._values[name] = fitting
            if change is not None:
                self._changes[name] = change
            if read_only:
                self._read_only.add(name)
        self._tell(new_parameters=self._messages([name]))
        return fitting

    def get(self, name: str) -> Any:
        """Return a parameter's value.

        Raises:
            ConfigError: if it was not declared.
        """
        with self._lock:
            if name not in self._values:
                raise ConfigError(f"parameter {name!r} was not declared: {nearest(name, self._values)}")
            return self._values[name]

    def _fitting(self, held: Any, value: Any) -> Any:
        """Return ``value`` in the type of the value that is held."""
        expected, got = kind_of(held), kind_of(value)
        if expected == _DOUBLE and got == _INTEGER:
            return float(value)
        if expected == _DOUBLE_ARRAY and got in (_INTEGER_ARRAY, _DOUBLE_ARRAY):
            return [float(item) for item in value]
        if expected != got and not (isinstance(value, list | tuple) and not value and expected >= _BYTE_ARRAY):
            raise TypeError(f"expected {_NAMES[expected]}, got {_NAMES[got]}")
        return value

    def services(self) -> dict[str, tuple[str, Callable[[Message], Message]]]:
        """Return the services of a node's parameters by name below the node: type and what answers."""
        handlers: dict[str, Callable[[Message], Message]] = {
            "describe_parameters": self._describe,
            "get_parameter_types": self._get_types,
            "get_parameters": self._get,
            "list_parameters": self._list,
            "set_parameters": self._set,
            "set_parameters_atomically": self._set_atomically,
        }
        return {
            name: (f"rcl_interfaces/srv/{''.join(word.title() for word in name.split('_'))}", handler)
            for name, handler in handlers.items()
        }

    def _respond(self, service: str, **fields: Any) -> Message:
        return self._types.make(f"rcl_interfaces/srv/{service}_Response", **fields)

    def _describe(self, request: Message) -> Message:
        descriptors = [
            {"name": name, "type": kind_of(value), "read_only": name in self._read_only}
            for name, value in self._known(request.names)
        ]
        return self._respond("DescribeParameters", descriptors=descriptors)

    def _get_types(self, request: Message) -> Message:
        return self._respond("GetParameterTypes", types=[kind_of(value) for _, value in self._known(request.names)])

    def _get(self, request: Message) -> Message:
        return self._respond("GetParameters", values=[_message_of(value) for _, value in self._known(request.names)])

    def _known(self, names: Sequence[str]) -> list[tuple[str, Any]]:
        """Return names and values; nothing at all where one was not declared, as rclcpp and rclpy answer."""
        with self._lock:
            return [(name, self._values[name]) for name in names] if self._values.keys() >= set(names) else []

    def _list(self, request: Message) -> Message:
        """Answer with the names below the prefixes, at most ``depth`` parts deeper; 0 is any depth."""
        with self._lock:
            known = sorted(self._values)
        names = [
            name for name in known if any(_is_below(name, p, request.depth) for p in list(request.prefixes) or [""])
        ]
        prefixes = sorted({name.rpartition(".")[0] for name in names if "." in name})
        return self._respond("ListParameters", result={"names": names, "prefixes": prefixes})

    def _set(self, request: Message) -> Message:
        results = []
        with self._lock:
            for parameter in request.parameters:
                fitting, reason = self._check(parameter)
                reason = reason or self._take(parameter.name, fitting)
                results.append({"successful": not reason, "reason": reason})
        self._tell_of_changes(
            [
                parameter.name
                for parameter, result in zip(request.parameters, results, strict=True)
                if result["successful"]
            ]
        )
        return self._respond("SetParameters", results=results)

    def _set_atomically(self, request: Message) -> Message:
        before: dict[str, Any] = {}
        with self._lock:
            checked = [(parameter.name, *self._check(parameter)) for parameter in request.parameters]
            reasons = [f"{name}: {reason}" for name, _, reason in checked if reason]
            if not reasons:
                for name, value, _ in checked:
                    held = self._values[name]
                    if reason := self._take(name, value):
                        reasons.append(f"{name}: {reason}")
                        break
                    before.setdefault(name, held)
                for name, value in before.items() if reasons else ():
                    self._take(name, value)
        self._tell_of_changes([] if reasons else list(before))
        result = {"successful": not reasons, "reason": "; ".join(reasons)}
        return self._respond("SetParametersAtomically", result=result)

    def _tell_of_changes(self, names: Sequence[str]) -> None:
        """Tell others of values that were set; outside the lock, which whoever reads a parameter needs."""
        if names:
            self._tell(changed_parameters=self._messages(list(dict.fromkeys(names))))

    def _messages(self, names: Sequence[str]) -> list[dict[str, Any]]:
        with self._lock:
            return [{"name": name, "value": _message_of(self._values[name])} for name in names]

    def _take(self, name: str, value: Any) -> str:
        """Have a parameter get a value that fits; return why it does not, empty where it does."""
        try:
            if name in self._changes:
                self._changes[name](value)
        except ConfigError as error:
            return str(error)
        self._values[name] = value
        return ""

    def _check(self, parameter: Message) -> tuple[Any, str]:
        """Return the value that a parameter would get, and why it may not."""
        if parameter.name not in self._values:
            return None, f"{parameter.name} was not declared"
        if parameter.name in self._read_only:
            return None, f"{parameter.name} is read-only"
        kind = parameter.value.type
        if kind not in _FIELDS:
            return None, f"{parameter.name} may not be removed"
        value = getattr(parameter.value, _FIELDS[kind])
        if isinstance(value, np.ndarray):
            value = value.tobytes() if kind == _BYTE_ARRAY else value.tolist()
        try:
            return self._fitting(self._values[parameter.name], value), ""
        except TypeError as error:
            return None, str(error)


def _message_of(value: Any) -> dict[str, Any]:
    """Return the fields of rcl_interfaces/msg/ParameterValue."""
    kind = kind_of(value)
    return {"type": kind, _FIELDS[kind]: value}


def _is_below(name: str, prefix: str, depth: int) -> bool:
    if prefix and name != prefix and not name.startswith(prefix + "."):
        return False
    below = name.removeprefix(prefix).strip(".")
    return depth == 0 or below.count(".") < depth
