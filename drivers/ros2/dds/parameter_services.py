"""Services and events with which ``ros2 param`` and other tools read, set and follow a node's parameters."""

from collections.abc import Callable, Mapping
from typing import Any

from ..api import Message, MessageTypes, Publisher, wall_time
from .parameters import Parameters, kind_of, message_of, value_in
from .waiter import log_failure

EVENT = "rcl_interfaces/msg/ParameterEvent"


class ParameterEvents:
    """Publisher of new and changed parameter values.

    Args:
        publisher: publisher of :data:`EVENT`.
        types: message definitions.
        node: fully qualified name of the node.
    """

    def __init__(self, publisher: Publisher, types: MessageTypes, node: str) -> None:
        self._publisher, self._types, self._node = publisher, types, node

    def publish(self, kind: str, values: Mapping[str, Any]) -> None:
        """Publish ``values`` by name in the field ``kind`` of :data:`EVENT`."""
        fields = {kind: [{"name": name, "value": message_of(value)} for name, value in values.items()]}
        message = self._types.make(EVENT, stamp=wall_time(self._types), node=self._node, **fields)
        log_failure(self._publisher.publish, message)  # only logged, because the values are already set


class ParameterServices:
    """Handlers of the six parameter services of a node.

    Args:
        parameters: parameters of the node.
        types: message definitions.
    """

    def __init__(self, parameters: Parameters, types: MessageTypes) -> None:
        self._parameters, self._types = parameters, types

    def handlers(self) -> dict[str, tuple[str, Callable[[Message], Message]]]:
        """Return the type and handler of each service, by its name below the node's."""
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
            {"name": name, "type": kind_of(value), "read_only": self._parameters.is_read_only(name)}
            for name, value in self._find(request)
        ]
        return self._respond("DescribeParameters", descriptors=descriptors)

    def _get_types(self, request: Message) -> Message:
        return self._respond("GetParameterTypes", types=[kind_of(value) for _, value in self._find(request)])

    def _get(self, request: Message) -> Message:
        return self._respond("GetParameters", values=[message_of(value) for _, value in self._find(request)])

    def _find(self, request: Message) -> list[tuple[str, Any]]:
        """Return names and values of the requested parameters, in the order of the request."""
        values = self._parameters.find(request.names)
        return [(name, values[name]) for name in request.names] if values else []

    def _list(self, request: Message) -> Message:
        """Return the names below the prefixes, at most ``depth`` levels deeper; 0 means any depth."""
        beginnings = list(request.prefixes) or [""]
        names = [
            name
            for name in self._parameters.names()
            if any(_is_below(name, beginning, request.depth) for beginning in beginnings)
        ]
        prefixes = sorted({name.rpartition(".")[0] for name in names if "." in name})
        return self._respond("ListParameters", result={"names": names, "prefixes": prefixes})

    def _set(self, request: Message) -> Message:
        reasons = self._parameters.set_each(
            [(parameter.name, value_in(parameter.value)) for parameter in request.parameters]
        )
        results = [{"successful": not reason, "reason": reason} for reason in reasons]
        return self._respond("SetParameters", results=results)

    def _set_atomically(self, request: Message) -> Message:
        reasons = self._parameters.set_together(
            [(parameter.name, value_in(parameter.value)) for parameter in request.parameters]
        )
        result = {"successful": not reasons, "reason": "; ".join(reasons)}
        return self._respond("SetParametersAtomically", result=result)


def _is_below(name: str, prefix: str, depth: int) -> bool:
    if prefix and name != prefix and not name.startswith(prefix + "."):
        return False
    below = name.removeprefix(prefix).strip(".")
    return depth == 0 or below.count(".") < depth
