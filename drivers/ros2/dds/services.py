"""Services as in rmw_cyclonedds: a topic of requests and one of replies, with a header before each message.

The header contains a number of the client's request writer and a sequence number. The server returns both. Each client
receives all replies and selects its own.
"""

import itertools
import logging
import struct
import threading
import time
from collections.abc import Callable

from cyclonedds.core import DDSException

from robo_rl.core import DriverError, Repetitions

from ..answers import Servers, seconds, wait_for_answer
from ..api import Message
from ..qos import SERVICES
from . import library
from .endpoint_factory import EndpointFactory
from .endpoints import is_fast_dds, user_data, values_of
from .waiter import Waiter

log = logging.getLogger(__name__)

HEADER = struct.Struct("<Qq")
UNMATCHED = "unmatched"
"""Partition of a request reader that no client matches."""
CLIENT_READER_SECONDS = 0.1
"""Longest wait for a client's reply reader, which may be discovered later than its request writer [s]."""
MOST_WAITING = 256
"""Largest number of unanswered requests of a client. When it is exceeded, the oldest request is abandoned."""
FOREIGN_SECONDS = 1.0
"""Longest wait for another server if the only one uses Fast DDS [s]."""
_POLL_SECONDS = 0.005


class Reply:
    """Future answer to one request.

    Attributes:
        message: the answer, once it has arrived.
    """

    def __init__(self, then: Callable[[Message], None] | None) -> None:
        self._event = threading.Event()
        self._then = then
        self.message: Message = None

    def put(self, message: Message) -> None:
        """Store the answer."""
        self.message = message
        if self._then is not None:
            self._then(message)
        self._event.set()

    def wait(self, timeout_s: float) -> bool:
        """Return whether the answer arrived in time."""
        return self._event.wait(max(0.0, timeout_s))


class DdsClient:
    """Client of a service; see :class:`.api.Client`.

    Args:
        endpoints: creates the writer and reader.
        service_type: type of the service.
        service: fully qualified name.
        waiter: receives replies. It differs from that of callbacks, so that callbacks may call services.
    """

    def __init__(self, endpoints: EndpointFactory, service_type: str, service: str, waiter: Waiter) -> None:
        self.service = service
        self._type = service_type
        self._endpoints = endpoints
        self._numbers = itertools.count(1)
        self._waiting: dict[int, Reply] = {}
        self._available: tuple[list[int], list[int]] | None = None
        self._is_foreign = False
        identity = f"clientid={endpoints.unique_id()};"
        self._writer = endpoints.writer(f"{service_type}_Request", f"rq{service}Request", SERVICES, identity)
        self._guid = library.instance_handle(self._writer.handle)
        self._reader = endpoints.reader(
            f"{service_type}_Response", f"rr{service}Reply", SERVICES, waiter, self._receive, identity
        )

    def is_available(self) -> bool:
        """Return whether one server is matched for both requests and replies."""
        matched = self._writer.matched(), self._reader.matched()
        if not all(matched):
            self._is_foreign = False
            return False
        if matched != self._available:  # reading endpoints is slow, so it is only done after a change
            if not self._check_servers():
                return False
            self._available = matched
        return True

    def _check_servers(self) -> bool:
        endpoints = self._writer.matched_endpoints()
        self._is_foreign = any(is_fast_dds(endpoint.key.bytes) for endpoint in endpoints)
        if self._is_foreign:  # a Fast DDS server would read the header as part of the request
            return False
        ids = values_of(endpoints, "serviceid")
        if not ids:  # some servers publish no id
            return True
        return bool(ids & values_of(self._reader.matched_endpoints(), "serviceid"))

    def wait(self, timeout_s: float) -> bool:
        """Return whether a server became available in time; False after a second if the only one uses Fast DDS."""
        began = time.monotonic()
        while not self.is_available():
            waited = time.monotonic() - began
            if waited >= timeout_s or (self._is_foreign and waited >= FOREIGN_SECONDS):
                return False
            time.sleep(_POLL_SECONDS)
        return True

    def start(self, request: Message, then: Callable[[Message], None] | None = None) -> Reply:
        """Send a request and return at once; ``then`` is called with the answer in the waiter's thread.

        ``then`` is not called if the answer arrives after :data:`MOST_WAITING` later requests that are also unanswered.

        Raises:
            ConfigError: if the request does not match the type.
            DriverError: if it cannot be sent.
        """
        number = next(self._numbers)
        header = HEADER.pack(self._guid, number)
        data = self._endpoints.types.serialize(f"{self._type}_Request", request, header)
        self._waiting[number] = reply = Reply(then)
        if len(self._waiting) > MOST_WAITING:
            self._waiting.pop(min(list(self._waiting)), None)
        try:
            self._writer.write(data)
        except DDSException as error:
            self._waiting.pop(number, None)
            raise DriverError(f"{self.service}: the request could not be sent: {error}") from error
        return reply

    def call(self, request: Message, timeout_s: float, then: Callable[[Message], None] | None = None) -> Message:
        """Return the server's answer; ``then`` is called with it in the waiter's thread, even if it arrives too late.

        Raises:
            ServerLostError: if the server ends or restarts before it answers.
            DriverError: if there is no server, or no answer in time.
        """
        deadline = time.monotonic() + timeout_s
        description = f"{self.service} ({self._type})"
        if not self.wait(timeout_s):
            absent = f"no server of {description} was there within {seconds(timeout_s)}"
            what = f"{description} is served by Fast DDS and cannot be called" if self._is_foreign else absent
            raise DriverError(f"{what}{self._endpoints.advice()}")
        servers = self.servers()
        reply = self.start(request, then)
        try:
            if wait_for_answer(description, reply.wait, servers, self.servers, deadline - time.monotonic()):
                return reply.message
        finally:
            if then is None:
                self.forget(reply)
        raise DriverError(f"{description} did not answer within {seconds(timeout_s)}{self._endpoints.advice()}")

    def servers(self) -> Servers:
        """Return the servers that receive requests now."""
        return frozenset(self._writer.matched())

    def forget(self, reply: Reply) -> None:
        """Stop waiting for an answer."""
        for number in [number for number, waiting in list(self._waiting.items()) if waiting is reply]:
            self._waiting.pop(number, None)

    def _receive(self, data: memoryview, writer: int) -> None:
        if len(data) < 4 + HEADER.size:
            return
        guid, number = HEADER.unpack_from(data, 4)
        reply = self._waiting.pop(number, None) if guid == self._guid else None
        if reply is not None:
            reply.put(self._endpoints.types.deserialize(f"{self._type}_Response", data, HEADER.size))


class DdsService:
    """Server that may answer requests at any time.

    Args:
        endpoints: creates the writer and reader.
        service_type: type of the service.
        service: fully qualified name.
        waiter: receives requests.
        handle: called with a request and the function that answers it, which may be called from any thread.
    """

    def __init__(
        self,
        endpoints: EndpointFactory,
        service_type: str,
        service: str,
        waiter: Waiter,
        handle: Callable[[Message, Callable[[Message], None]], None],
    ) -> None:
        self.service = service
        self._type = service_type
        self._endpoints = endpoints
        self._handle = handle
        self._listening_clients: set[str] = set()
        self._awaited_clients: set[str] = set()
        self._repetitions = Repetitions()
        self._clients: dict[int, str | None] = {}
        identity = f"serviceid={endpoints.unique_id()};"
        requests = f"{service_type}_Request", f"rq{service}Request", SERVICES, waiter, self._receive
        # Fast DDS sends the identity of a request outside the message, where Cyclone's library does not expose it, so
        # its clients must not wait for an answer. They regard a service as available only if it has as many request
        # readers as reply writers. Cyclone's clients count only the endpoints that they match. This reader comes
        # before the other one, so that the numbers are never equal.
        endpoints.reader(*requests, partition=UNMATCHED)
        self._writer = endpoints.writer(f"{service_type}_Response", f"rr{service}Reply", SERVICES, identity)
        self._reader = endpoints.reader(*requests, identity)

    def _receive(self, data: memoryview, writer: int) -> None:
        if writer not in self._clients and not self._register_client(writer):
            return
        header = bytes(data[4 : 4 + HEADER.size])
        request = self._endpoints.types.deserialize(f"{self._type}_Request", data, HEADER.size)
        client = self._clients[writer]

        def answer(response: Message) -> None:
            data = self._endpoints.types.serialize(f"{self._type}_Response", response, header)
            if client is None or self._is_listening(client):
                self._writer.write(data)
            elif self._repetitions.count("not listening"):
                log.warning("%s: the client of a request does not listen for the answer", self.service)

        self._handle(request, answer)

    def _register_client(self, writer: int) -> bool:
        """Register a client; return whether its requests can be read."""
        endpoint = self._reader.matched_endpoint(writer)
        if endpoint is not None and is_fast_dds(endpoint.key.bytes):
            if self._repetitions.count("Fast DDS"):
                log.warning(
                    "%s: a request was not read, as it is from Fast DDS (rmw_fastrtps). Set "
                    "RMW_IMPLEMENTATION=rmw_cyclonedds_cpp where it comes from",
                    self.service,
                )
            return False
        matched = self._reader.matched()
        self._clients = {handle: client for handle, client in self._clients.items() if handle in matched}
        self._clients[writer] = user_data(endpoint, "clientid")
        self._awaited_clients &= {client for client in self._clients.values() if client is not None}
        return True

    def _is_listening(self, client: str) -> bool:
        """Return whether the client's reader is matched; the first call for each client waits for it.

        Other callbacks wait meanwhile, possibly including that of an emergency stop.
        """
        deadline = time.monotonic() + (0.0 if client in self._awaited_clients else CLIENT_READER_SECONDS)
        self._awaited_clients.add(client)
        while client not in self._listening_clients:
            self._listening_clients = values_of(self._writer.matched_endpoints(), "clientid")
            if client not in self._listening_clients:
                if time.monotonic() >= deadline:
                    return False
                time.sleep(_POLL_SECONDS)
        return True
