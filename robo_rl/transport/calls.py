"""Calls of actors and operators that a learner answers."""

import itertools
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from robo_rl.core import Clock, DataError, EnvSpec, RoboRLError, TransitionInbox, parse_json

from . import messages_pb2 as messages
from .admission import Admission, Code
from .config import TransportConfig
from .control import COMMANDS, is_command, wanted_actors
from .images import is_image
from .leases import Lease, Leases
from .notices import Notices
from .received import MOST_SKIPPED, ReceivedExchange, are_plausible, read_exchange, read_record, trusted_statistics
from .receiving import StepReceiver
from .service import CONTROL, EXCHANGE, JOIN, PROTOCOL, WATCH
from .views import PRESENT_SECONDS


class LearnerCalls:
    """Handlers of the calls, which run in gRPC's threads.

    gRPC checks the size of every request, then :class:`Admission` checks token, form, certificate and rate, and then
    this class checks protocol, run, incarnation and session. Refused requests are counted by kind.

    Locks are always acquired in this order: an actor's lock, ``notices.news``, the locks of inbox and admission.

    Args:
        config, run, spec, inbox, check, clock: those of :class:`.LearnerServer`.
        admission: admission that checks and refuses requests.
        leases: leases of the actors.
        notices: policies and guidance for the actors.

    Attributes:
        incarnation: identity of this process, new with every start.
    """

    def __init__(
        self,
        config: TransportConfig,
        run: str,
        spec: EnvSpec,
        inbox: TransitionInbox,
        check: Callable[[Mapping[str, Any]], list[str]],
        clock: Clock,
        admission: Admission,
        leases: Leases,
        notices: Notices,
    ) -> None:
        self.incarnation = secrets.token_hex(8)
        self._config = config
        self._run = run
        self._has_images = any(map(is_image, spec.observation.values()))
        self._inbox = inbox
        self._check = check
        self._clock = clock
        self._admission = admission
        self._leases = leases
        self._notices = notices
        self._receiver = StepReceiver(spec, inbox, leases, notices.use_room)
        self._commands: list[str] = []
        self._commands_lock = threading.Lock()

    def handlers(self) -> dict[str, Any]:
        """Return the handlers by the names of the calls."""
        unary = grpc.stream_unary_rpc_method_handler
        return {
            JOIN.name: unary(self._admission.guarded(JOIN, self._join)),
            EXCHANGE.name: unary(self._admission.guarded(EXCHANGE, self._exchange, read_exchange)),
            CONTROL.name: unary(self._admission.guarded(CONTROL, self._control)),
            WATCH.name: grpc.stream_stream_rpc_method_handler(self._admission.guarded(WATCH, self._watch)),
        }

    def take_commands(self) -> list[str]:
        """Return the commands of operators, at the learner and at robots, since the last call; see :data:`COMMANDS`."""
        with self._commands_lock:
            commands, self._commands = self._commands, []
            return commands

    def _check_run(self, context: Any, run: str) -> None:
        if run != self._run:
            text = f"this is the learner of run {self._run}, not of {run or 'none'}; connect to the learner of that run"
            self._admission.refuse(context, Code.FAILED_PRECONDITION, "run", text)

    def _check_fit(self, request: Any, context: Any) -> None:
        """Refuse an actor whose protocol, run or facts do not match this learner."""
        if request.protocol != PROTOCOL:
            text = (
                f"the learner speaks protocol {PROTOCOL}, the actor {request.protocol}; install the same version of "
                "robo-rl on both"
            )
            self._admission.refuse(context, Code.FAILED_PRECONDITION, "protocol", text)
        if request.run:
            self._check_run(context, request.run)
        try:
            facts = parse_json(request.facts, "the facts", finite=False)
            differences = self._check(facts)
        except (ValueError, LookupError, TypeError, AttributeError, RoboRLError) as error:
            self._admission.refuse(context, Code.INVALID_ARGUMENT, "form", f"the actor's facts cannot be read: {error}")
        if differences:
            text = f"the actor does not fit the learner: {'; '.join(differences)}"
            self._admission.refuse(context, Code.FAILED_PRECONDITION, "facts", text)

    def _join(self, request: Any, context: Any) -> Any:
        self._check_fit(request, context)
        name, session = request.actor, request.session
        if request.newest_session > (limit := self._inbox.newest_session(name) + MOST_SKIPPED):
            text = f"sessions of {name} have numbers up to {limit}: the spool is damaged; use another actor.spool"
            self._admission.refuse(context, Code.INVALID_ARGUMENT, "form", text)
        if session and not self._inbox.has_session(name, session):
            text = f"{name} has no session {session} here: the learner's replay was replaced; restart the actor"
            self._admission.refuse(context, Code.FAILED_PRECONDITION, "session", text)
        with self._notices.news:
            lease = self._leases.get(name)
            if lease is not None and session and lease.session > session:
                text = f"another actor has taken the name {name}; give each actor its own name"
                self._admission.refuse(context, Code.ALREADY_EXISTS, "session", text)
            most = self._config.max_actors
            if self._leases.present_beside(name) >= most:
                self._admission.postpone(context, PRESENT_SECONDS, "actors", f"{most} actors are connected already")
            if not session:
                try:
                    session = self._receiver.open_session(name, request.newest_session, set(request.held_sessions))
                except DataError as error:
                    self._admission.refuse(
                        context, Code.UNAVAILABLE, "session", f"no session of {name} can begin: {error}"
                    )
            if lease is not None and lease.session == session:
                lease.seen_ns = self._clock.now_ns()
                lease.watch += 1  # ends the actor's earlier stream, whose connection is lost
                self._notices.news.notify_all()
            else:
                for forgotten in self._leases.grant(name, session):
                    self._receiver.end_sessions(forgotten)
                    self._admission.forget(forgotten)
                self._notices.share()
                self._admission.note(f"{name} joined (session {session})")
                self._admission.welcome(name)
        return messages.JoinReply(
            run=self._run,
            incarnation=self.incarnation,
            session=session,
            message_bytes=self._config.message_bytes,
        )

    def _exchange(self, received: ReceivedExchange, context: Any) -> Any:
        request = received.message
        lease = self._lease(request, context)
        key = request.actor, request.record_session
        if request.record_session > lease.session or not self._inbox.has_session(*key):
            text = f"{request.actor} has no session {request.record_session} here"
            self._admission.refuse(context, Code.FAILED_PRECONDITION, "session", text)
        try:
            records = [read_record(data, self._has_images) for data in received.records]
        except DecodeError:
            self._admission.refuse(context, Code.INVALID_ARGUMENT, "form", "a record is damaged")
        sequences = [record.message.sequence for record in records]
        if not are_plausible(request.first_available, sequences, self._inbox.progress(*key).wanted):
            text = "steps with these numbers cannot have been lost: the spool is damaged; use another actor.spool"
            self._admission.refuse(context, Code.INVALID_ARGUMENT, "form", text)
        if any(later != earlier + 1 for earlier, later in itertools.pairwise(sequences)):
            self._admission.refuse(context, Code.INVALID_ARGUMENT, "form", "records are not in sequence")
        if request.end_run:
            self._ask_to_end(request.actor)
        blocked = self._inbox.blocked()
        with lease.lock:
            lease.seen_ns = self._clock.now_ns()
            lease.statistics = trusted_statistics(request.statistics)
            lease.receive_words()
            if lease.statistics.pictures:
                lease.pictures = dict(lease.statistics.pictures)
                lease.statistics.pictures.clear()
            lease.receive_scene()
            if not blocked:
                was_left = lease.left
                self._receiver.take_in(key, request, records)
                if lease.left and not was_left and not self._notices.is_over:
                    self._admission.note(f"{request.actor} left (session {lease.session})")
            progress = self._inbox.progress(*key)
        return messages.ExchangeReply(
            wanted=progress.wanted,
            settled=progress.settled,
            stored=progress.stored,
            refused=progress.refused,
            blocked=blocked,
        )

    def _ask_to_end(self, actor: str) -> None:
        """Treat the request of an operator at a robot as the command ``stop``."""
        self._admission.note(f"A person at {actor} ends the run")
        with self._commands_lock:
            self._commands.append("stop")

    def _watch(self, request: Any, context: Any) -> Iterator[Any]:
        lease = self._lease(request, context)
        version = request.policy_version, request.policy_sha256
        return self._notices.stream(lease, version, context, lambda: self._lease(request, context))

    def _control(self, request: Any, context: Any) -> Any:
        if request.run:
            self._check_run(context, request.run)
        if not is_command(request.command):
            text = f"unknown command {request.command!r}; valid: {', '.join(COMMANDS)}"
            self._admission.refuse(context, Code.INVALID_ARGUMENT, "command", text)
        if (wanted_actors(request.command) or 0) > self._config.max_actors:
            text = f"at most {self._config.max_actors} actors can be connected (runtime.transport.max_actors)"
            self._admission.refuse(context, Code.INVALID_ARGUMENT, "command", text)
        with self._commands_lock:
            self._commands.append(request.command)
        return messages.ControlReply(run=self._run, message=f"{request.command}: accepted")

    def _lease(self, request: Any, context: Any) -> Lease:
        self._check_run(context, request.run)
        lease = self._leases.get(request.actor)
        if request.incarnation != self.incarnation or lease is None or request.session > lease.session:
            self._admission.refuse(context, Code.ABORTED, "stale", "the learner was restarted; join again")
        if request.session < lease.session:
            text = f"session {request.session} of {request.actor} was replaced by {lease.session}"
            self._admission.refuse(context, Code.ALREADY_EXISTS, "session", text)
        return lease
