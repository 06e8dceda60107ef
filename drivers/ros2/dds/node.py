"""A ROS 2 node over plain DDS."""

import itertools
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from robo_rl.core import Closing

from ..api import DEFAULT_QOS, Graph, Message, Problem, ServerGoal, wall_time
from ..message_types import distribution_of_environment
from ..names import Names, for_node
from ..qos import ROSOUT, SERVICES, QoSProfile
from . import library
from .action_client import DdsActionClient
from .action_server import DdsActionServer
from .configuration import Discovery
from .endpoints import DdsPublisher, DdsSubscription, Reader, Writer, cyclone_qos
from .graph import GraphMonitor
from .parameters import EVENT, Parameters
from .participant import Participant
from .rosout import LOG, Rosout
from .services import DdsClient, DdsService
from .timer import DdsTimer
from .topic_types import shared_types
from .waiter import Waiter, log_failure

DESCRIBE = "type_description_interfaces/srv/GetTypeDescription"


class DdsNode(Closing):
    """As of :class:`Node`. It has a participant of its own, and two threads.

    Callbacks run in one; the other hears what they may wait for: answers of services, and who is there.

    Args:
        name: of the node.
        namespace: its namespace.
        remappings: names to change, see :meth:`Names.make`.
        parameters: values that take the place of declared defaults.
        interfaces: folders with a user's definitions.
        discovery: domain and whom to look for; None: what the environment says.

    Raises:
        ConfigError: if a name, a definition or an environment variable is not allowed.
        DriverError: if Cyclone DDS refuses the settings.
    """

    implementation = "dds"

    def __init__(
        self,
        name: str,
        namespace: str = "",
        remappings: Mapping[str, str] | None = None,
        parameters: Mapping[str, Any] | None = None,
        interfaces: Iterable[str | Path] = (),
        discovery: Discovery | None = None,
    ) -> None:
        self._names = Names.make(name, namespace, remappings or {})
        folders = tuple(Path(folder).absolute() for folder in interfaces)
        self.types, self._topic_types = shared_types(distribution_of_environment(), folders)
        self._participant = Participant(discovery or Discovery.from_environment())
        self._lock = threading.Lock()
        self._closed = False
        self._ids = itertools.count(1)
        self._servers: list[DdsService | DdsActionServer] = []
        self._endpoints: list[Writer | Reader] = []  # what nobody refers to is deleted
        self._rosout: Rosout | None = None
        handle = self._participant.handle
        self._callbacks = Waiter(handle, f"{self._names.node}: callbacks")
        self._replies = Waiter(handle, f"{self._names.node}: replies")
        try:
            self._graph = GraphMonitor(
                self._names, self._participant.entity, self.types, self._topic_types, self._replies
            )
            events = self.create_publisher(EVENT, "/parameter_events", SERVICES)
            self._parameters = Parameters(
                self.types, for_node(name, parameters or {}), self._tell_of_parameters(events)
            )
            self._rosout = Rosout(self.create_publisher(LOG, "/rosout", ROSOUT), self.types, self.name, self.now)
            for service, (kind, answer) in self._parameters.services().items():
                self._serve(kind, f"{self.name}/{service}", answer)
            if f"{DESCRIBE}_Request" in self.types:  # Humble has none
                self._serve(DESCRIBE, f"{self.name}/get_type_description", self._describe)
        except BaseException:
            self.close()
            raise

    @property
    def name(self) -> str:
        return self._names.full_name

    @property
    def graph(self) -> Graph:
        return self._graph.graph

    @property
    def problems(self) -> tuple[Problem, ...]:
        return self._graph.problems

    def create_publisher(self, message_type: str, topic: str, qos: QoSProfile = DEFAULT_QOS) -> DdsPublisher:
        full = self._names.resolve(topic)
        return DdsPublisher(full, message_type, self.types, self.writer(message_type, f"rt{full}", qos))

    def create_subscription(
        self,
        message_type: str,
        topic: str,
        callback: Callable[[Message], None] | None = None,
        qos: QoSProfile = DEFAULT_QOS,
    ) -> DdsSubscription:
        full = self._names.resolve(topic)
        subscription = DdsSubscription(full, message_type, self.types, callback)
        subscription.reader = self.reader(message_type, f"rt{full}", qos, self._callbacks, subscription.receive)
        return subscription

    def offered(self, topic: str) -> tuple[QoSProfile, ...]:
        return self._graph.offered(f"rt{self._names.resolve(topic)}")

    def create_client(self, service_type: str, service: str) -> DdsClient:
        return DdsClient(self, service_type, self._names.resolve(service), self._replies)

    def create_service(self, service_type: str, service: str, callback: Callable[[Message], Message]) -> None:
        self._serve(service_type, self._names.resolve(service), callback)

    def create_timer(self, period_s: float, callback: Callable[[], None]) -> DdsTimer:
        return DdsTimer(self._callbacks, period_s, callback)

    def create_action_client(self, action_type: str, action: str) -> DdsActionClient:
        return DdsActionClient(self, action_type, self._names.resolve(action), self._callbacks, self._replies)

    def create_action_server(
        self,
        action_type: str,
        action: str,
        execute: Callable[[ServerGoal], Message],
        accept: Callable[[Message], bool] | None = None,
    ) -> None:
        full = self._names.resolve(action)
        self._servers.append(DdsActionServer(self, action_type, full, self._callbacks, execute, accept, self.now))

    def declare_parameter(
        self, name: str, default: Any, change: Callable[[Any], None] | None = None, read_only: bool = False
    ) -> Any:
        return self._parameters.declare(name, default, change, read_only)

    def parameter(self, name: str) -> Any:
        return self._parameters.get(name)

    def now(self) -> Message:
        return wall_time(self.types)

    def writer(self, message_type: str, topic: str, qos: QoSProfile, user_data: str = "") -> Writer:
        """Make a writer and tell the graph of it; ``topic`` is a DDS name."""
        kind = self._topic_types[message_type]
        with self._lock:
            made = Writer(
                self._participant.entity, topic, kind, cyclone_qos(qos, self._user_data(message_type, user_data))
            )
            self._endpoints.append(made)
        self._graph.add(made)
        return made

    def reader(
        self,
        message_type: str,
        topic: str,
        qos: QoSProfile,
        waiter: Waiter,
        receive: Callable[[memoryview, int], None],
        user_data: str = "",
        partition: str = "",
    ) -> Reader:
        """Make a reader and tell the graph of it; ``topic`` is a DDS name."""
        kind = self._topic_types[message_type]
        policies = cyclone_qos(qos, self._user_data(message_type, user_data), partition)
        with self._lock:
            made = Reader(self._participant.entity, topic, kind, policies, waiter, receive)
            self._endpoints.append(made)
        self._graph.add(made)
        return made

    def unique_id(self) -> str:
        """Return what identifies a client or server of services among all."""
        identity = library.guid(self._participant.handle)[:12] + next(self._ids).to_bytes(4, "big")
        return ".".join(f"{byte:x}" for byte in identity)

    def advice(self) -> str:
        """Return what may be the reason that a service does not answer, or nothing."""
        return self._graph.advice()

    def _describe(self, request: Message) -> Message:
        """Answer what a type's fields are, as nodes of Jazzy do for tools that have no definition of it."""
        name, response = request.type_name, f"{DESCRIBE}_Response"
        if name not in self.types:
            return self.types.make(response, failure_reason=f"{self.name} knows no type {name}")
        if request.type_hash != self.types.hash(name):
            reason = f"{self.name} has {name} with the hash {self.types.hash(name)}"
            return self.types.make(response, failure_reason=reason)
        return self.types.make(response, successful=True, type_description=self.types.describe(name))

    def _user_data(self, message_type: str, more: str) -> str:
        return f"{more}typehash={self.types.hash(message_type)};"

    def _tell_of_parameters(self, publisher: DdsPublisher) -> Callable[..., None]:
        def tell(**parameters: list[Message]) -> None:
            message = self.types.make(EVENT, stamp=self.now(), node=self.name, **parameters)
            log_failure(publisher.publish, message)  # the values are set already

        return tell

    def _serve(self, service_type: str, service: str, callback: Callable[[Message], Message]) -> None:
        def handle(request: Message, answer: Callable[[Message], None]) -> None:
            answer(callback(request))

        self._servers.append(DdsService(self, service_type, service, self._callbacks, handle))

    def close(self) -> None:
        """Leave the graph. What the node made cannot be used any more."""
        with self._lock:
            closed, self._closed = self._closed, True
        if closed:
            return
        for server in self._servers:
            if isinstance(server, DdsActionServer):
                server.close()
        if self._rosout is not None:
            self._rosout.close()
        self._callbacks.close()
        self._replies.close()
        self._participant.close()
