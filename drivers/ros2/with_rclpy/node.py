"""ROS 2 node over rclpy."""

from collections.abc import Callable, Mapping
from typing import Any

import rclpy
from rclpy.clock import Clock, ClockType
from rclpy.context import Context
from rclpy.signals import SignalHandlerOptions

from robo_rl.core import Closing

from ..api import DEFAULT_QOS, Accept, Answer, Execute, Graph, Message, Problem, Receive, wall_time
from ..names import Names, for_node
from ..qos import SERVICES, QoSProfile
from .actions import RclpyActionClient, serve_action
from .endpoints import Guard, RclpyClient, RclpyPublisher, RclpySubscription, ServerWatch, rclpy_qos
from .message_types import RclpyTypes, interface_class
from .mismatches import find_problems, profile_of
from .parameters import RclpyParameters
from .spinning import MessageSpinner, Spinner

try:
    from rclpy.event_handler import SubscriptionEventCallbacks
except ModuleNotFoundError:  # Humble
    from rclpy.qos_event import SubscriptionEventCallbacks


class RclpyNode(Closing):
    """Node with its own rclpy context; see :class:`.api.Node`.

    It spins in three threads: messages arrive in one, requests and timers in another, and callbacks take turns. Answers
    that callbacks may wait for arrive in the third, through a second node with a hidden name: rclpy cannot divide one
    node between two executors. Goals are executed in separate threads. A MultiThreadedExecutor would pass each message
    to another thread of the interpreter, which on Fast DDS takes a whole core for a few hundred messages per second.

    Args:
        name: name of the node.
        namespace: namespace of the node.
        remappings: remapping rules of the ROS 2 command line.
        parameters: values that override the defaults of declared parameters.

    Raises:
        ConfigError: if ROS 2 does not allow a name.
    """

    def __init__(
        self,
        name: str,
        namespace: str = "",
        remappings: Mapping[str, str] | None = None,
        parameters: Mapping[str, Any] | None = None,
    ) -> None:
        self._names = Names.make(name, namespace, remappings or {})
        self.types = RclpyTypes()
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
        # Its names are already resolved, and the rule for the node's own name must not apply to it.
        self._calls_node = rclpy.create_node(
            f"_{self._names.node}_calls",
            context=self._context,
            namespace=self._names.namespace,
            use_global_arguments=False,
            enable_rosout=False,
            start_parameter_services=False,
        )
        self._clock = Clock(clock_type=ClockType.STEADY_TIME)
        self._publishers: list[RclpyPublisher] = []
        self._subscriptions: list[RclpySubscription] = []
        self._guard = Guard(self._node.get_logger())
        self.parameters = RclpyParameters(self._node, for_node(name, parameters or {}), self._guard)
        self._messages = MessageSpinner(self._names.node, self._context, self._guard)
        self._callbacks = Spinner(self._node, self._context, self._guard)
        self._calls = Spinner(self._calls_node, self._context, self._guard)

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
        wrapper = RclpyPublisher(publisher, message_type, qos)
        self._publishers.append(wrapper)
        return wrapper

    def create_subscription(
        self, message_type: str, topic: str, callback: Receive | None = None, qos: QoSProfile = DEFAULT_QOS
    ) -> RclpySubscription:
        full = self._node.resolve_topic_name(self._checked(topic))
        subscription = RclpySubscription(self._node, full, message_type, qos, callback)
        own = self._node.create_subscription(
            self.types[message_type],
            topic,
            self._guard(subscription.receive),
            rclpy_qos(qos),
            callback_group=self._messages.group,
            # On Fast DDS, the executor would wake up for each message to look for other events of the subscription.
            event_callbacks=SubscriptionEventCallbacks(use_default_callbacks=False),
        )
        self._messages.add(own)
        self._subscriptions.append(subscription)
        return subscription

    def offered(self, topic: str) -> tuple[QoSProfile, ...]:
        publishers = self._node.get_publishers_info_by_topic(self._checked(topic))
        return tuple(profile_of(publisher) for publisher in publishers)

    def create_client(self, service_type: str, service: str) -> RclpyClient:
        full = self._names.resolve(service)
        client = self._calls_node.create_client(interface_class(service_type), full, qos_profile=rclpy_qos(SERVICES))
        return RclpyClient(client, service_type, full, ServerWatch(self._calls_node, full))

    def create_service(self, service_type: str, service: str, callback: Answer) -> None:
        name = self._checked(service)

        def answer(request: Message, response: Message) -> Message:
            try:
                with self._guard.turn():
                    return callback(request)
            except Exception as error:  # a failing callback must not end the node
                self._guard.report(error)
                return response  # rclpy always sends an answer

        self._node.create_service(interface_class(service_type), name, answer, qos_profile=rclpy_qos(SERVICES))

    def create_timer(self, period_s: float, callback: Callable[[], None]) -> Any:
        return self._node.create_timer(period_s, self._guard(callback), clock=self._clock)

    def create_action_client(self, action_type: str, action: str) -> RclpyActionClient:
        full = self._names.resolve(action)
        kind = interface_class(action_type)
        return RclpyActionClient(self._calls_node, kind, action_type, full, self._calls, self._callbacks, self._guard)

    def create_action_server(
        self, action_type: str, action: str, execute: Execute, accept: Accept | None = None
    ) -> None:
        kind, full = interface_class(action_type), self._names.resolve(action)
        serve_action(self._node, kind, full, execute, accept, self._guard, is_closing=lambda: self._guard.closed)

    def _checked(self, name: str) -> str:
        """Return ``name`` after checking it: rclpy remaps names itself, but raises other errors for invalid ones."""
        self._names.resolve(name)
        return name

    def now(self) -> Message:
        return wall_time(self.types)

    def close(self) -> None:
        if self._guard.closed:
            return
        self._guard.closed = True  # first, because the interpreter waits for the threads of running goals at exit
        self._messages.close()
        self._callbacks.close()
        self._calls.close()
        self._calls_node.destroy_node()
        self._node.destroy_node()
        self._context.try_shutdown()
