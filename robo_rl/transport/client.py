"""The actor's end of the wire: it reconnects by itself and never holds up the control loop."""

import json
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import grpc

from robo_rl.core import (
    CheckpointError,
    Closing,
    ConfigError,
    EnvSpec,
    Metrics,
    MonotonicClock,
    State,
    TransitionOutbox,
    TransportError,
    plain_text,
)

from . import messages_pb2 as messages
from .codec import OVERHEAD_BYTES, RecordLayout
from .config import TransportConfig
from .connection import Connection, SilenceNotice, retry_seconds
from .framing import join_fields
from .memory import keep_freed_memory
from .policy import PolicyAssembly, unpack_policy
from .service import PROTOCOL
from .views import WORDS_CHARACTERS, WORDS_KEPT, LinkStatus

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
    """A message that is under way: its session of steps, whether it asks for the run's end, its words, its call."""

    session: int
    ends_run: bool
    words_said: int
    call: Any


class LearnerLink(Closing):
    """Sends what the outbox holds, receives policies and guidance, in threads of its own.

    Args:
        config: of the wire.
        actor: identity of the robot or simulator; with certificates, the name in them.
        spec: of the environment.
        facts: JSON values that must agree with the learner's, beside the spec.
        outbox: encoded steps; they leave it once the learner has settled them.
        run: run that the outbox belongs to; empty: none yet.
        tell: given what people should know: that the learner does not answer, and why.

    Raises:
        ConfigError: if keys or token cannot be read, or a step does not fit into a message.
    """

    def __init__(
        self,
        config: TransportConfig,
        actor: str,
        spec: EnvSpec,
        facts: Mapping[str, Any],
        outbox: TransitionOutbox,
        run: str = "",
        tell: Callable[[str], None] = print,
    ) -> None:
        layout = RecordLayout(spec)
        self._largest = layout.step_bytes + layout.observation_bytes + OVERHEAD_BYTES
        if self._largest > config.message_bytes:
            raise ConfigError(
                f"transport.message_bytes is {config.message_bytes}, but a step takes {self._largest}: raise it on "
                "both sides"
            )
        keep_freed_memory()
        self._config = config
        self._actor = actor
        self._facts = json.dumps({"spec": spec.to_json(), **facts})
        self._outbox = outbox
        self._message_bytes = config.message_bytes
        self._batch_bytes = BATCH_BYTES
        self._connection = Connection(config, actor, SilenceNotice(config, tell, MonotonicClock()))
        self.run = run
        self.session = 0
        self._incarnation = ""
        self._status = LinkStatus()
        self._statistics: Any = messages.ActorStatistics(policy_version=-1)
        self._pictures: Mapping[str, bytes] = {}
        self._picture_problem = ""
        self._words: deque[str] = deque(maxlen=WORDS_KEPT)
        self._words_said = 0
        self._orders: list[str] = []
        self._policy: tuple[int, State] | None = None
        self._policy_identity = (-1, b"")
        self._damaged_policies = 0
        self._error: TransportError | None = None
        self._wanted: dict[int, int] = {}
        self._ends_run = False
        self._finishing = False
        self._closing = False
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._arrived = threading.Condition(self._lock)
        self._threads: list[threading.Thread] = []

    # --- the control loop's side; nothing here waits for the network -------------------------------------------------

    @property
    def status(self) -> LinkStatus:
        """What is known now.

        Raises:
            TransportError: if the learner refused this actor for good.
        """
        if self._error is not None:
            raise self._error
        return self._status

    def wake(self) -> None:
        """Tell that the outbox has something to send."""
        self._wake.set()

    def report(
        self,
        *,
        produced: int,
        policy_version: int,
        refused_policies: int,
        held_seconds: float,
        practice_state: str,
        practice: Metrics,
    ) -> None:
        """Set what the next message says of this actor; see ``ActorStatistics`` in messages.proto."""
        self._statistics = messages.ActorStatistics(
            produced=produced,
            policy_version=policy_version,
            refused_policies=refused_policies + self._damaged_policies,
            held_seconds=held_seconds,
            practice_state=practice_state,
            practice=practice,
        )

    def say(self, text: str) -> None:
        """Have people at the learner know of something; kept until the learner has heard it, the newest few."""
        with self._lock:
            self._words.append(plain_text(text, WORDS_CHARACTERS))
            self._words_said += 1
        self._wake.set()

    def show(self, pictures: Mapping[str, bytes], problem: str) -> None:
        """Set the newest JPEG pictures by camera, which go with the next message; or say why there are none."""
        with self._lock:
            self._pictures, self._picture_problem = pictures or self._pictures, problem

    def end_run(self) -> None:
        """Have the learner end the run, as soon as it can be reached: a person at the robot wants that."""
        self._ends_run = True
        self._wake.set()

    def take_orders(self) -> list[str]:
        """Return what a person said about the episode since the last call: ``reset``, ``success``, ``failure``."""
        with self._lock:
            orders, self._orders = self._orders, []
            return orders

    def take_policy(self) -> tuple[int, State] | None:
        """Return version and arrays of a policy that came since the last call, else None."""
        with self._lock:
            policy, self._policy = self._policy, None
            return policy

    # --- beginning and end -------------------------------------------------------------------------------------------

    def join(self, newest_session: int, should_stop: Callable[[], bool]) -> bool:
        """Wait until the learner has given this actor a session; :meth:`start` begins to send and receive.

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

    def start(self) -> None:
        """Begin to send and receive, once the outbox has the session."""
        self._threads = [
            threading.Thread(target=self._send, name="link-send", daemon=True),
            threading.Thread(target=self._receive, name="link-receive", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def wait_for_policy(self, timeout: float) -> bool:
        """Return whether a policy is there to be taken, waiting for it up to ``timeout`` [s]."""
        with self._arrived:
            self._arrived.wait_for(lambda: self._policy is not None or self._error is not None, timeout)
            return self._policy is not None

    def finish(self, timeout: float) -> bool:
        """End the session and wait until the learner has settled all of the outbox; return whether it has.

        Raises:
            TransportError: if the learner refused this actor for good.
        """
        self._finishing = True
        self._wake.set()
        with self._arrived:
            self._arrived.wait_for(lambda: not self._outbox.sessions() or self._error is not None, timeout)
        if self._error is not None:
            raise self._error
        return not self._outbox.sessions()

    def close(self) -> None:
        """End the threads and the connection. May be called twice."""
        self._closing = True
        self._wake.set()
        self._connection.leave()
        for thread in self._threads:
            thread.join()
        self._threads = []
        self._connection.close()

    # --- threads -----------------------------------------------------------------------------------------------------

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
        self.run, self._incarnation, self.session = reply.run, reply.incarnation, reply.session
        self._wanted.clear()
        self._set_status(connected=True)

    def _send(self) -> None:
        """Send until closed; a lost connection is renewed, a refusal is remembered for the control loop."""
        while not self._closing:
            self._wake.clear()
            try:
                if not self._status.connected:
                    self._join(0)
                pause = self._send_all()
            except grpc.RpcError as error:
                if (later := retry_seconds(error)) is not None:
                    self._set_status(blocked=str(error.details()))
                    self._pause(later)
                    continue
                self._lost(error)
                pause = RETRY_SECONDS
            except TransportError as error:
                self._give_up(error)
                return
            except Exception as error:  # the outbox is damaged, or a defect of ours: the control loop must know
                self._give_up(TransportError(f"sending failed: {error}"))
                return
            if self._error is not None:
                return
            self._wake.wait(pause)

    def _send_all(self) -> float:
        """Send what the outbox holds, oldest session first; return how long to wait before the next time [s]."""
        settled_all = True
        for session in self._outbox.sessions():
            ends = session != self.session or self._finishing
            end = self._outbox.extent(session)[1]
            settled = self._send_session(session, end, ends)
            self._outbox.settle(session, settled)
            if ends and settled >= end:
                self._outbox.drop_session(session)
                with self._arrived:
                    self._arrived.notify_all()
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
            if reply.blocked or self._closing or (follows >= end and reply.wanted >= end):
                return int(reply.settled)
            if reply.wanted == wanted and records:
                raise TransportError(f"the learner took none of {len(records)} steps from {wanted} on")
            if reply.wanted != follows:
                ahead = []

    def _begin_exchange(self, session: int, records: list[bytes], ended: bool) -> _Exchange:
        extents = {held: self._outbox.extent(held) for held in self._outbox.sessions()}
        request = messages.ExchangeRequest(
            run=self.run,
            incarnation=self._incarnation,
            actor=self._actor,
            session=self.session,
            record_session=session,
            first_available=extents[session][0] if session in extents else 0,
            session_ended=ended,
            statistics=self._statistics,
            end_run=self._ends_run,
        )
        request.statistics.spooled = sum(end - first for first, end in extents.values())
        with self._lock:
            request.statistics.words.extend(self._words)
            request.statistics.words_said = self._words_said
        self._attach_pictures(request, sum(map(len, records)))
        fields = ((request.RECORDS_FIELD_NUMBER, record) for record in records)
        data = join_fields(request.SerializeToString(), fields)
        said = request.statistics.words_said
        return _Exchange(session, request.end_run, said, self._connection.begin_exchange(data))

    def _end_exchange(self, exchange: _Exchange) -> Any:
        """Wait for the reply."""
        reply = self._connection.end_exchange(exchange.call)
        self._wanted[exchange.session] = reply.wanted
        if exchange.ends_run:
            self._ends_run = False
        with self._lock:
            for _ in range(max(len(self._words) - (self._words_said - exchange.words_said), 0)):
                self._words.popleft()
        if exchange.session == self.session:
            self._set_status(connected=True, stored=reply.stored, refused=reply.refused, blocked=reply.blocked)
        return reply

    def _attach_pictures(self, request: Any, record_bytes: int) -> None:
        """Send pictures along, once, where they fit beside the records."""
        with self._lock:
            pictures, self._pictures = self._pictures, {}
            request.statistics.picture_problem = self._picture_problem
        size = sum(map(len, pictures.values())) + record_bytes
        if size + 2 * OVERHEAD_BYTES <= self._message_bytes:
            request.statistics.pictures.update(pictures)

    def _over(self) -> bool:
        return self._closing or self._error is not None

    def _receive(self) -> None:
        while not self._over():
            if not self._status.connected:
                self._pause(RETRY_SECONDS)
                continue
            request = messages.WatchRequest(
                run=self.run,
                incarnation=self._incarnation,
                actor=self._actor,
                session=self.session,
                policy_version=self._policy_identity[0],
                policy_sha256=self._policy_identity[1],
            )
            assembly = PolicyAssembly()
            try:
                for notice in self._connection.watch(request):
                    self._take_notice(notice, assembly)
            except grpc.RpcError:
                pass  # whether the learner is there, and wants us, the sending thread finds out
            self._pause(RETRY_SECONDS)

    def _pause(self, seconds: float) -> None:
        with self._arrived:
            self._arrived.wait_for(lambda: self._closing, seconds)

    def _take_notice(self, notice: Any, assembly: PolicyAssembly) -> None:
        if notice.HasField("guidance"):
            guidance = notice.guidance
            self._set_status(
                hold=guidance.hold,
                stop=guidance.stop,
                env_steps=guidance.env_steps,
                watched=guidance.watched,
                until=guidance.until,
            )
            with self._lock:
                self._orders += guidance.orders
        if notice.HasField("policy"):
            try:
                message = assembly.add(notice.policy)
                if message is None:
                    return
                policy = message.version, unpack_policy(message)
            except CheckpointError:
                self._damaged_policies += 1
                return
            with self._arrived:
                self._policy_identity = message.identity
                self._policy = policy
                self._arrived.notify_all()

    def _set_status(self, **changes: Any) -> None:
        with self._lock:
            self._status = replace(self._status, **changes)

    def _lost(self, error: Any) -> None:
        self._set_status(connected=False)
        if error.code() in _FATAL:
            self._give_up(self._refused(error))
        else:
            self._connection.failed(error)

    def _refused(self, error: Any) -> TransportError:
        return TransportError(f"the learner at {self._config.address} refused {self._actor}: {error.details()}")

    def _give_up(self, error: TransportError) -> None:
        with self._arrived:
            self._error = error
            self._arrived.notify_all()
