"""Thread that joins a learner and sends it the contents of the outbox."""

import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import grpc

from robo_rl.core import ConfigError, EnvSpec, TransitionOutbox, TransportError

from . import messages_pb2 as messages
from .codec import OVERHEAD_BYTES, RecordLayout
from .config import TransportConfig
from .connection import Connection, retry_seconds
from .framing import MOST_FIELDS, join_fields
from .incoming import LearnerNews
from .outgoing import ActorReport, SentReport
from .received import LAST_NUMBER
from .service import PROTOCOL

HEARTBEAT_SECONDS = 0.5
RETRY_SECONDS = 0.25
SETTLE_SECONDS = 0.02
BATCH_BYTES = 4 << 20
MOST_RUN_CHARACTERS = 256

_FATAL = (
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.ALREADY_EXISTS,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.UNIMPLEMENTED,
)


class _Exchange(NamedTuple):
    """Message in flight: the session of its steps, its report, and its call."""

    session: int
    reported: SentReport
    call: Any


def largest_step(config: TransportConfig, spec: EnvSpec) -> int:
    """Return the largest size of a message with one step [bytes].

    Raises:
        ConfigError: if it exceeds ``config.message_bytes``.
    """
    layout = RecordLayout(spec)
    largest = layout.step_bytes + layout.observation_bytes + OVERHEAD_BYTES
    if largest > config.message_bytes:
        raise ConfigError(
            f"transport.message_bytes is {config.message_bytes}, but a step takes {largest}: raise it on both sides"
        )
    return largest


class StepSender:
    """Sender of the steps and the report. It joins a learner and renews lost connections.

    Args:
        config: configuration of the transport.
        actor: identity of the robot or simulator.
        facts: JSON object of the facts that must agree with those of the learner.
        step_bytes: largest size of a message with one step [bytes].
        outbox: encoded steps, which are removed once the learner has settled them.
        run: run that the outbox belongs to; empty: none yet.
        connection: connection that makes the calls.
        news: status, policy and orders of the learner.
        wake: event that is set when there is something to send.
        report: report that is sent with the steps.

    Attributes:
        run: run of the learner, once the actor has joined.
        session: number of this actor's session; 0: it has not joined yet.
        incarnation: identity of the learner process.
        finishing: whether no more steps follow, so that the session ends once all are sent.
    """

    def __init__(
        self,
        config: TransportConfig,
        actor: str,
        facts: str,
        step_bytes: int,
        outbox: TransitionOutbox,
        run: str,
        connection: Connection,
        news: LearnerNews,
        wake: threading.Event,
        report: ActorReport,
    ) -> None:
        self.run, self.session, self.incarnation = run, 0, ""
        self.finishing = False
        self._config = config
        self._actor = actor
        self._facts = facts
        self._largest = step_bytes
        self._outbox = outbox
        self._connection = connection
        self._news = news
        self._wake = wake
        self._report = report
        self._message_bytes = config.message_bytes
        self._batch_bytes = BATCH_BYTES
        self._wanted: dict[int, int] = {}

    def join(self, newest_session: int, should_stop: Callable[[], bool]) -> bool:
        """Wait until the learner has given this actor a session.

        Args:
            newest_session: largest session number in the outbox.
            should_stop: called before each attempt; True ends the wait.

        Returns:
            Whether the actor has joined: False if ``should_stop`` ended the wait.

        Raises:
            TransportError: if the learner refuses.
        """
        while not should_stop():
            try:
                self._join(newest_session)
                return True
            except grpc.RpcError as error:
                pause = retry_seconds(error)
                if pause is None and error.code() in _FATAL:
                    raise self._refused(error) from error
                self._connection.failed(error)
            time.sleep(pause or RETRY_SECONDS)
        return False

    def _join(self, newest_session: int) -> None:
        request = messages.JoinRequest(
            protocol=PROTOCOL,
            actor=self._actor,
            run=self.run,
            session=self.session,
            newest_session=newest_session,
            held_sessions=self._outbox.sessions(),
            facts=self._facts,
        )
        reply = self._connection.join(request)
        if self._largest > reply.message_bytes:
            raise TransportError(
                f"the learner at {self._config.address} accepts messages of {reply.message_bytes} bytes, but a step "
                f"takes {self._largest}: raise its runtime.transport.message_bytes"
            )
        if not 0 < reply.session <= LAST_NUMBER or not 0 < len(reply.run) <= MOST_RUN_CHARACTERS:
            raise TransportError(
                f"the learner at {self._config.address} is none of robo-rl: it gave session {reply.session} of run "
                f"{reply.run[:MOST_RUN_CHARACTERS]!r}"
            )
        self._message_bytes = min(self._config.message_bytes, reply.message_bytes)
        self._batch_bytes = min(BATCH_BYTES, self._message_bytes - OVERHEAD_BYTES)
        self.run, self.incarnation, self.session = reply.run, reply.incarnation, reply.session
        self._wanted.clear()
        self._news.set_status(connected=True)

    def send(self) -> None:
        """Send until the link ends; keep the error of a refusal for the control loop."""
        while not self._news.closing:
            self._wake.clear()
            try:
                if not self._news.status.connected:
                    self._join(0)
                pause = self._send_all()
            except grpc.RpcError as error:
                if (pause_seconds := retry_seconds(error)) is not None:
                    self._news.set_status(blocked=str(error.details()))
                    self._news.wait(lambda: False, pause_seconds)
                    continue
                self._lost(error)
                pause = RETRY_SECONDS
            except TransportError as error:
                self._news.give_up(error)
                return
            except Exception as error:  # a damaged outbox or a bug, which the control loop must be notified of
                self._news.give_up(TransportError(f"sending failed: {error}"))
                return
            if self._news.error is not None:
                return
            self._wake.wait(pause)

    def _send_all(self) -> float:
        """Send the contents of the outbox, oldest session first; return the time until the next call [s]."""
        settled_all = True
        for session in self._outbox.sessions():
            ends = session != self.session or self.finishing
            end = self._outbox.extent(session)[1]
            settled = self._send_session(session, end, ends)
            self._outbox.settle(session, settled)
            if ends and settled >= end:
                self._outbox.drop_session(session)
                self._news.notify()
            elif ends:
                settled_all = False
        if not self._outbox.sessions():
            # Send a heartbeat, because the outbox is empty.
            self._end_exchange(self._begin_exchange(self.session, [], False))
        return HEARTBEAT_SECONDS if settled_all else SETTLE_SECONDS

    def _send_session(self, session: int, end: int, ends: bool) -> int:
        """Send a session up to ``end``; return the end of the steps that the learner has settled."""
        if session not in self._wanted:  # the reply contains the number of the first step to send
            self._end_exchange(self._begin_exchange(session, [], False))
        next_records: list[bytes] = []  # the steps after those in flight, read while waiting for the reply
        while True:
            wanted = self._wanted[session]
            records = next_records or self._read(session, wanted)
            next_wanted = wanted + len(records)
            call = self._begin_exchange(session, records, ends and next_wanted >= end)
            next_records = self._read(session, next_wanted) if records else []
            reply = self._end_exchange(call)
            self._outbox.settle(session, min(reply.settled, end))
            if reply.blocked or self._news.closing or (next_wanted >= end and reply.wanted >= end):
                return int(reply.settled)
            if reply.wanted == wanted and records:
                raise TransportError(f"the learner accepted none of {len(records)} steps from {wanted} on")
            if reply.wanted != next_wanted:
                next_records = []

    def _read(self, session: int, sequence: int) -> list[bytes]:
        """Return the records from ``sequence`` on that fit into a message."""
        return self._outbox.read(session, sequence, self._batch_bytes)[:MOST_FIELDS]

    def _begin_exchange(self, session: int, records: list[bytes], ended: bool) -> _Exchange:
        extents = {held_session: self._outbox.extent(held_session) for held_session in self._outbox.sessions()}
        request = messages.ExchangeRequest(
            run=self.run,
            incarnation=self.incarnation,
            actor=self._actor,
            session=self.session,
            record_session=session,
            first_available=extents[session][0] if session in extents else 0,
            session_ended=ended,
        )
        spooled = sum(end - first for first, end in extents.values())
        reported = self._report.fill(request, spooled, self._message_bytes - sum(map(len, records)))
        fields = ((request.RECORDS_FIELD_NUMBER, record) for record in records)
        data = join_fields(request.SerializeToString(), fields)
        return _Exchange(session, reported, self._connection.begin_exchange(data))

    def _end_exchange(self, exchange: _Exchange) -> Any:
        """Wait for the reply."""
        reply = self._connection.end_exchange(exchange.call)
        self._wanted[exchange.session] = reply.wanted
        self._report.acknowledge(exchange.reported)
        if exchange.session == self.session:
            self._news.set_status(connected=True, stored=reply.stored, refused=reply.refused, blocked=reply.blocked)
        return reply

    def _lost(self, error: Any) -> None:
        self._news.set_status(connected=False)
        if error.code() in _FATAL:
            self._news.give_up(self._refused(error))
        else:
            self._connection.failed(error)

    def _refused(self, error: Any) -> TransportError:
        return TransportError(f"the learner at {self._config.address} refused {self._actor}: {error.details()}")
