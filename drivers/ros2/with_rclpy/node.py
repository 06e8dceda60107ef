"""A ROS 2 node on rclpy."""

import importlib
import threading
from collections.abc import Callable, Mapping
from typing import Any

import rclpy
from rcl_interfaces.msg import ParameterDescriptor, SetParametersResult
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup, ReentrantCallbackGroup
from rclpy.clock import Clock, ClockType
from rclpy.context import Context
from rclpy.exceptions import InvalidParameterTypeException, ParameterAlreadyDeclaredException
from rclpy.executors import ExternalShutdownException, MultiThreadedExecutor
from rclpy.parameter import Parameter
from rclpy.signals import SignalHandlerOptions

from robo_rl.core import Closing, ConfigError, DriverError

from ..api import DEFAULT_QOS, Graph, Message, Problem, ServerGoal, wall_time
from ..names import Names, for_node
from ..qos import QoSProfile
from .actions import RclpyActionClient, serve_action
from .endpoints import Guard, RclpyClient, RclpyPublisher, RclpySubscription, rclpy_qos
from .message_types import RclpyTypes
from .mismatches import find_problems

THREADS = 16
"""Of the executor: callbacks take one at a time, what they wait for and goals that are executed take the others."""


class RclpyNode(Closing):
    """As of :class:`Node`, with a context of its own.

    Args:
        name: of the node.
        namespace: its namespace.
        remappings: as on the command line of ROS 2.
        parameters: values that take the place of declared defaults.

    Raises:
        ConfigError: if a name is not one that ROS 2 allows.
    """

    implementation = "rclpy"

    def __init__(
        self,
        name: str,
        namespace: str = "",
        remappings: Mapping[str, str] | None = None,
        parameters: Mapping[str, Any] | None = None,
    ) -> None:
        self._names = Names.make(name, namespace, remappings or {})
        self.types = RclpyTypes()
        self._overrides = for_node(name, parameters or {})
        self._context = Context()
        rclpy.init(args=[], context=self._context, signal_handler_options=SignalHandlerOptions.NO)
        rules = [part for old, new in (remappings or {}).items() for part in ("-r", f"{old}:={new}")]
        self._node = rclpy.create_node(
            name,
            context=self._context,
            namespace=namespace or None,
            cli_args=["--ros-args", *rules] if rules else None,
            use_global_arguments=False,
        )
        self._one_at_a_time = MutuallyExclusiveCallbackGroup()
        self._any_time = ReentrantCallbackGroup()
        self._clock = Clock(clock_type=ClockType.STEADY_TIME)
        self._publishers: list[RclpyPublisher] = []
        self._changes: dict[str, Callable[[Any], None]] = {}
        self._subscriptions: list[RclpySubscription] = []
        self._guard = Guard(self._node.get_logger())
        self._executor = MultiThreadedExecutor(THREADS, context=self._context)
        self._executor.add_node(self._node)
        self._thread = threading.Thread(target=self._spin, name=f"{name}: executor", daemon=True)
        self._thread.start()
        self._closed = False

    def _spin(self) -> None:
        try:
            self._executor.spin()
        except ExternalShutdownException:
            return

    @property
    def name(self) -> str:
        return str(self._node.get_fully_qualified_name())

    @property
    def graph(self) -> Graph:
        nodes = [f"{space.rstrip('/')}/{name}" for name, space in self._node.get_node_names_and_namespaces()]
        return Graph(
            nodes=tuple(sorted(nodes)),
            topics={name: tuple(kinds) for name, kinds in self._node.get_topic_names_and_types()},
            services={name: tuple(kinds) for name, kinds in self._node.get_service_names_and_types()},
        )

    @property
    def problems(self) -> tuple[Problem, ...]:
        return find_problems(self._node, self._publishers, self._subscriptions)

    def create_publisher(self, message_type: str, topic: str, qos: QoSProfile = DEFAULT_QOS) -> RclpyPublisher:
        publisher = self._node.create_publisher(self.types[message_type], self._checked(topic), rclpy_qos(qos))
        made = RclpyPublisher(publisher, message_type, qos)
        self._publishers.append(made)
        return made

    def create_subscription(
        self,
        message_type: str,
        topic: str,
        callback: Callable[[Message], None] | None = None,
        qos: QoSProfile = DEFAULT_QOS,
    ) -> RclpySubscription:
        full = self._node.resolve_topic_name(self._checked(topic))
        made = RclpySubscription(self._node, full, message_type, qos, callback)
        self._node.create_subscription(
            self.types[message_type],
            topic,
            self._guard(made.receive),
            rclpy_qos(qos),
            callback_group=self._one_at_a_time,
        )
        self._subscriptions.append(made)
        return made

    def create_client(self, service_type: str, service: str) -> RclpyClient:
        kind = _interface(service_type)
        client = self._node.create_client(kind, self._checked(service), callback_group=self._any_time)
        return RclpyClient(client, service_type, self._node.resolve_service_name(service))

    def create_service(self, service_type: str, service: str, callback: Callable[[Message], Message]) -> None:
        name = self._checked(service)

        def answer(request: Message, response: Message) -> Message:
            try:
                return callback(request)
            except Exception:
                self._guard.report()
                return response  # rclpy has no way to leave a request unanswered

        self._node.create_service(_interface(service_type), name, answer, callback_group=self._one_at_a_time)

    def create_timer(self, period_s: float, callback: Callable[[], None]) -> Any:
        return self._node.create_timer(
            period_s, self._guard(callback), callback_group=self._one_at_a_time, clock=self._clock
        )

    def create_action_client(self, action_type: str, action: str) -> RclpyActionClient:
        name = self._checked(action)
        return RclpyActionClient(self._node, _interface(action_type), action_type, name, self._any_time, self._guard)

    def create_action_server(
        self,
        action_type: str,
        action: str,
        execute: Callable[[ServerGoal], Message],
        accept: Callable[[Message], bool] | None = None,
    ) -> None:
        kind = _interface(action_type)
        serve_action(
            self._node,
            kind,
            self._checked(action),
            execute,
            accept,
            self._any_time,
            self._guard,
            is_closing=lambda: self._closed,
        )

    def declare_parameter(
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
        return self.parameter(name)

    def _checked(self, name: str) -> str:
        """Return a name as it is: rclpy remaps it, but has other errors for one that ROS 2 does not allow."""
        self._names.resolve(name)
        return name

    def _change(self, parameters: list[Parameter]) -> SetParametersResult:
        """Tell whoever wants to know of new values; where one refuses, those before it get their old ones back."""
        told: list[str] = []
        try:
            for parameter in parameters:
                if parameter.name in self._changes:
                    self._changes[parameter.name](parameter.value)
                    told.append(parameter.name)
        except ConfigError as error:
            for name in told:
                self._changes[name](self.parameter(name))
            return SetParametersResult(successful=False, reason=str(error))
        return SetParametersResult(successful=True)

    def parameter(self, name: str) -> Any:
        if not self._node.has_parameter(name):
            raise ConfigError(f"parameter {name!r} was not declared")
        return self._node.get_parameter(name).value

    def now(self) -> Message:
        return wall_time(self.types)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True  # goals that are executed end: the interpreter would wait for their threads
        self._executor.shutdown(timeout_sec=1.0)
        self._node.destroy_node()
        self._context.try_shutdown()
        self._thread.join(5.0)


def _interface(name: str) -> Any:
    """Return the class of a service or action.

    Raises:
        DriverError: if the sourced distribution has none.
    """
    package, kind, own = name.split("/")
    try:
        return getattr(importlib.import_module(f"{package}.{kind}"), own)
    except (ImportError, AttributeError) as error:
        raise DriverError(f"{name} is not in the sourced ROS 2 workspace: {error}") from error
