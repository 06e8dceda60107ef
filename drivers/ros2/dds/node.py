"""ROS 2 node over plain DDS."""

import threading
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from robo_rl.core import Closing

from ..api import DEFAULT_QOS, Accept, Answer, Execute, Graph, Message, Problem, Receive, wall_time
from ..message_types import RosbagsTypes, distribution_of_environment
from ..names import Names, for_node
from ..qos import ROSOUT, SERVICES, QoSProfile
from .action_client import DdsActionClient
from .action_server import DdsActionServer
from .configuration import Discovery
from .endpoint_factory import EndpointFactory
from .endpoints import DdsPublisher, DdsSubscription
from .graph import GraphMonitor
from .parameter_services import EVENT, ParameterEvents, ParameterServices
from .parameters import Parameters
from .participant import Participant
from .rosout import LOG, Rosout
from .services import DdsClient, DdsService
from .timer import DdsTimer
from .topic_types import shared_types
from .waiter import Waiter

DESCRIBE = "type_description_interfaces/srv/GetTypeDescription"


class DdsNode(Closing):
    """Node with its own participant and two threads; see :class:`.api.Node`.

    Callbacks run in one thread. The other discovers the graph and receives answers of services, which callbacks may
    wait for.

    Args:
        name: name of the node.
        namespace: namespace of the node.
        remappings: new names by old name; see :meth:`Names.make`.
        parameters: values that override the defaults of declared parameters.
        interfaces: folders with the user's definitions.
        discovery: domain and peers; None: those of the environment.

    Raises:
        ConfigError: if a name, a definition or an environment variable is invalid.
        DriverError: if Cyclone DDS rejects the settings.
    """

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
        self.types, topic_types = shared_types(distribution_of_environment(), folders)
        self._participant = Participant(discovery or Discovery.from_environment())
        self._lock = threading.Lock()
        self._closed = False
        self._servers: list[DdsService | DdsActionServer] = []
        self._rosout: Rosout | None = None
        handle = self._participant.handle
        self._callbacks = Waiter(handle, f"{self._names.node}: callbacks")
        self._replies = Waiter(handle, f"{self._names.node}: replies")
        try:
            self._graph = GraphMonitor(self._names, self._participant.entity, self.types, topic_types, self._replies)
            self._endpoints = EndpointFactory(self._participant, self.types, topic_types, self._graph)
            events = ParameterEvents(self.create_publisher(EVENT, "/parameter_events", SERVICES), self.types, self.name)
            self.parameters = Parameters(self.types, for_node(name, parameters or {}), events.publish)
            self._rosout = Rosout(self.create_publisher(LOG, "/rosout", ROSOUT), self.types, self.name, self.now)
            for service, (kind, answer) in ParameterServices(self.parameters, self.types).handlers().items():
                self._serve(kind, f"{self.name}/{service}", answer)
            if f"{DESCRIBE}_Request" in self.types:  # Humble lacks it
                self._serve(DESCRIBE, f"{self.name}/get_type_description", partial(_describe, self.types, self.name))
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
        return DdsPublisher(full, message_type, self.types, self._endpoints.writer(message_type, f"rt{full}", qos))

    def create_subscription(
        self, message_type: str, topic: str, callback: Receive | None = None, qos: QoSProfile = DEFAULT_QOS
    ) -> DdsSubscription:
        full = self._names.resolve(topic)
        subscription = DdsSubscription(full, message_type, self.types, callback)
        subscription.reader = self._endpoints.reader(
            message_type, f"rt{full}", qos, self._callbacks, subscription.receive
        )
        return subscription

    def offered(self, topic: str) -> tuple[QoSProfile, ...]:
        return self._graph.offered(f"rt{self._names.resolve(topic)}")

    def create_client(self, service_type: str, service: str) -> DdsClient:
        return DdsClient(self._endpoints, service_type, self._names.resolve(service), self._replies)

    def create_service(self, service_type: str, service: str, callback: Answer) -> None:
        self._serve(service_type, self._names.resolve(service), callback)

    def create_timer(self, period_s: float, callback: Callable[[], None]) -> DdsTimer:
        return DdsTimer(self._callbacks, period_s, callback)

    def create_action_client(self, action_type: str, action: str) -> DdsActionClient:
        return DdsActionClient(
            self._endpoints, action_type, self._names.resolve(action), self._callbacks, self._replies
        )

    def create_action_server(
        self, action_type: str, action: str, execute: Execute, accept: Accept | None = None
    ) -> None:
        full = self._names.resolve(action)
        self._servers.append(
            DdsActionServer(self._endpoints, action_type, full, self._callbacks, execute, accept, self.now)
        )

    def now(self) -> Message:
        return wall_time(self.types)

    def _serve(self, service_type: str, service: str, callback: Answer) -> None:
        def handle(request: Message, answer: Callable[[Message], None]) -> None:
            answer(callback(request))

        self._servers.append(DdsService(self._endpoints, service_type, service, self._callbacks, handle))

    def close(self) -> None:
        """Leave the graph. Publishers, clients and everything else that the node created cannot be used afterwards."""
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


def _describe(types: RosbagsTypes, node: str, request: Message) -> Message:
    """Return the fields of a type, as Jazzy's nodes do for tools without its definition."""
    name, response = request.type_name, f"{DESCRIBE}_Response"
    if name not in types:
        return types.make(response, failure_reason=f"{node} knows no type {name}")
    if request.type_hash != types.hash(name):
        return types.make(response, failure_reason=f"{node} has {name} with the hash {types.hash(name)}")
    return types.make(response, successful=True, type_description=types.describe(name))
