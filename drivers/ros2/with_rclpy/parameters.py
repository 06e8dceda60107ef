"""Parameters of an rclpy node."""

from collections.abc import Callable, Mapping
from typing import Any

from rcl_interfaces.msg import ParameterDescriptor, SetParametersResult
from rclpy.exceptions import InvalidParameterTypeException, ParameterAlreadyDeclaredException
from rclpy.parameter import Parameter

from robo_rl.core import ConfigError

from .endpoints import Guard


class RclpyParameters:
    """Parameters of an rclpy node; see :class:`.api.Parameters`.

    Args:
        node: rclpy's node.
        overrides: values that override the defaults of declared parameters.
        guard: gives callbacks their turn.
    """

    def __init__(self, node: Any, overrides: Mapping[str, Any], guard: Guard) -> None:
        self._node, self._overrides, self._guard = node, overrides, guard
        self._changes: dict[str, Callable[[Any], None]] = {}

    def declare(
        self, name: str, default: Any, change: Callable[[Any], None] | None = None, read_only: bool = False
    ) -> Any:
        value = self._overrides.get(name, default)
        if isinstance(default, float) and type(value) is int:
            value = float(value)
        if read_only and type(value) is not type(default):
            raise ConfigError(f"parameter {name!r}: expected {type(default).__name__}, got {value!r}")
        try:
            descriptor = ParameterDescriptor(read_only=read_only)
            self._node.declare_parameter(name, value if read_only else default, descriptor)
            if value != default and not read_only:
                (result,) = self._node.set_parameters([Parameter(name, value=value)])
                if not result.successful:
                    raise ConfigError(f"parameter {name!r}: {result.reason}")
        except (ParameterAlreadyDeclaredException, InvalidParameterTypeException) as error:
            raise ConfigError(f"parameter {name!r}: {error}") from error
        if change is not None:
            if not self._changes:
                self._node.add_on_set_parameters_callback(self._change)
            self._changes[name] = change
        return self.get(name)

    def get(self, name: str) -> Any:
        if not self._node.has_parameter(name):
            raise ConfigError(f"parameter {name!r} was not declared")
        return self._node.get_parameter(name).value

    def _change(self, parameters: list[Parameter]) -> SetParametersResult:
        """Pass new values on, in one turn. If one is rejected, the values before it are restored."""
        changed: list[str] = []
        with self._guard.turn():
            try:
                for parameter in parameters:
                    if parameter.name in self._changes:
                        self._changes[parameter.name](parameter.value)
                        changed.append(parameter.name)
            except ConfigError as error:
                for name in changed:
                    self._changes[name](self.get(name))
                return SetParametersResult(successful=False, reason=str(error))
        return SetParametersResult(successful=True)
