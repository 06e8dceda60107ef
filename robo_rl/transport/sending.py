"""The thread that joins a learner and sends it what the outbox holds."""

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
from .framing import join_fields
from .incoming import LearnerNews
from .outgoing import ActorReport, Told
from .service import PROTOCOL

HEARTBEAT_SECONDS = 0.5
RETRY_SECONDS = 0.25
SETTLE_SECONDS = 0.02
BATCH_BYTES = 4 << 20

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
    """A message that is under way: its session of steps, what else it tells, its call."""

    session: int
    told: Told
    call: Any


def largest_step(config: TransportConfig, spec: EnvSpec) -> int:
    """Return how many bytes a message with one step has at most.

    Raises:
        ConfigError: if that is more than a message may have.
    """
    layout = RecordLayout(spec)
    largest = layout.step_bytes + layout.observation_bytes + OVERHEAD_BYTES
    if largest > config.message_bytes:
        raise ConfigError(
            f"transport.message_bytes is {config.message_bytes}, but a step takes {largest}: raise it on both sides"
        )
    return largest


class StepSender:
    """Joins a learner, and sends it steps and the report; a lost connection is renewed.

    Args:
        config: of the wire.
        actor: identity of the robot or simulator.
        facts: JSON object of what must agree with the learner's.
        step_bytes: of the largest message with one step.
        outbox: encoded steps; they leave it once the learner has settled them.
        run: run that the outbox belongs to; empty: none yet.
        connection: makes the calls.
        news: what is known of the learner.
        wake: set where there is something to send.
        report: what is sent beside the steps.

    Attributes:
        run: of the learner, once it is joined.
        session: number of this actor's session, once it has joined; 0: not yet.
        incarnation: of the learner.
        finishing: whether no more steps come, so that the session ends once all are sent.
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
            newest_session: largest session number that the outbox knows.
            should_stop: asked between attempts.

        Returns:
            False if ``should_stop`` ended the wait.

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
                f"the learner at {self._config.address} takes messages of {reply.message_bytes} bytes, but a step "
                f"takes {self._largest}: raise its runtime.transport.message_bytes"
            )
        self._message_bytes = min(self._config.message_bytes, reply.message_bytes)
        self._batch_bytes = min(BATCH_BYTES, self._message_bytes - OVERHEAD_BYTES)
        self.run, self.incarnation, self.session = reply.run, reply.incarnation, reply.session
        self._wanted.clear()
        self._news.set_status(connected=True)

    def send(self) -> None:
        """Send until the link is over; a refusal is remembered for the control loop."""
        while not self._news.closing:
            self._wake.clear()
            try:
                if not self._news.status.connected:
                    self._join(0)
                pause = self._send_all()
            except grpc.RpcError as error:
                if (later := retry_seconds(error)) is not None:
                    self._news.set_status(blocked=str(error.details()))
                    self._news.wait(lambda: False, later)
                    continue
                self._lost(error)
                pause = RETRY_SECONDS
            except TransportError as error:
                self._news.give_up(error)
                return
            except Exception as error:  # the outbox is damaged, or a defect of ours: the control loop must know
                self._news.give_up(TransportError(f"sending failed: {error}"))
                return
            if self._news.error is not None:
                return
            self._wake.wait(pause)

    def _send_all(self) -> float:
        """Send what the outbox holds, oldest session first; return how long to wait before the next time [s]."""
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
            # A heartbeat: nothing to send since the session began or ended.
            self._end_exchange(self._begin_exchange(self.session, [], False))
        return HEARTBEAT_SECONDS if settled_all else SETTLE_SECONDS

    def _send_session(self, session: int, end: int, ends: bool) -> int:
        """Send a session up to ``end``; return up to where the learner has settled it."""
        if session not in self._wanted:  # the learner says where to begin
            self._end_exchange(self._begin_exchange(session, [], False))
        ahead: list[bytes] = []  # what comes after the steps that are under way, read meanwhile
        while True:
            wanted = self._wanted[session]
            records = ahead or self._outbox.read(session, wanted, self._batch_bytes)
            follows = wanted + len(records)
            call = self._begin_exchange(session, records, ends and follows >= end)
            ahead = self._outbox.read(session, follows, self._batch_bytes) if records else []
            reply = self._end_exchange(call)
            self._outbox.settle(session, min(reply.settled, end))
            if reply.blocked or self._news.closing or (follows >= end and reply.wanted >= end):
                return int(reply.settled)
            if reply.wanted == wanted and records:
                raise TransportError(f"the learner took none of {len(records)} steps from {wanted} on")
            if reply.wanted != follows:
                ahead = []

    def _begin_exchange(self, session: int, records: list[bytes], ended: bool) -> _Exchange:
        extents = {held: self._outbox.extent(held) for held in self._outbox.sessions()}
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
        told = self._report.fill(request, spooled, self._message_bytes - sum(map(len, records)))
        fields = ((request.RECORDS_FIELD_NUMBER, record) for record in records)
        data = join_fields(request.SerializeToString(), fields)
        return _Exchange(session, told, self._connection.begin_exchange(data))

    def _end_exchange(self, exchange: _Exchange) -> Any:
        """Wait for the reply."""
        reply = self._connection.end_exchange(exchange.call)
        self._wanted[exchange.session] = reply.wanted
        self._report.heard(exchange.told)
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
