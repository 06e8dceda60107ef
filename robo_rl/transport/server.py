"""The learner's end of the wire."""

import itertools
import secrets
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from robo_rl.core import Clock, EnvSpec, MonotonicClock, Refusal, RoboRLError, State, TransitionInbox, parse_json

from . import messages_pb2 as messages
from .admission import Admission, Code
from .codec import RecordDecoder
from .config import TransportConfig
from .control import COMMANDS, is_command, wanted_actors
from .images import is_image
from .leases import Lease, Leases
from .memory import keep_freed_memory
from .policy import PolicyMessage, pack_policy
from .received import (
    LAST_NUMBER,
    ReceivedExchange,
    ReceivedRecord,
    are_plausible,
    read_exchange,
    read_record,
    trusted_statistics,
)
from .service import CONTROL, EXCHANGE, JOIN, PROTOCOL, SERVICE, WATCH, listen, server_options
from .views import PRESENT_SECONDS, ActorView
from .waiting import MOST_WAITING

PING_SECONDS = 1.0


class LearnerServer:
    """Takes steps in, gives policies and guidance out. Handlers run in threads of gRPC.

    gRPC checks the size of every request, then :class:`Admission` token, form, certificate and rate, then this class
    protocol, run, incarnation and session. What is refused is counted by kind, and told through ``take_notes``.

    Who needs several locks takes them in this order: an actor's, ``_news``, those of inbox and admission.

    Args:
        config: of the wire.
        run: identity of the run; steps of other runs are refused.
        spec: of the environment.
        inbox: where steps go.
        check: given the facts that an actor joins with; returns one line for each that does not fit.
        clock: monotonic time.
        paused: see :meth:`pause`.

    Raises:
        ConfigError: if the address cannot be listened on, or keys or token cannot be read.
    """

    def __init__(
        self,
        config: TransportConfig,
        run: str,
        spec: EnvSpec,
        inbox: TransitionInbox,
        check: Callable[[Mapping[str, Any]], list[str]],
        clock: Clock | None = None,
        paused: bool = False,
    ) -> None:
        keep_freed_memory()
        self.run = run
        self.incarnation = secrets.token_hex(8)
        self._spec = spec
        self._has_images = any(map(is_image, spec.observation.values()))
        self._inbox = inbox
        self._check = check
        self._clock = clock or MonotonicClock()
        self._config = config
        self._admission = Admission(config, self._clock)
        self._leases = Leases(inbox, self._clock)
        self.take_words = self._leases.take_words
        self._decoders: dict[tuple[str, int], RecordDecoder] = {}
        self._policy: PolicyMessage | None = None
        self._room, self._stop, self._env_steps = sys.maxsize, False, 0
        self._paused = paused
        self._watched = False
        self._news = threading.Condition()
        self._stopping = False
        self._commands: list[str] = []
        # Each actor keeps one thread by its Watch, and another for the moment of an Exchange.
        pool = ThreadPoolExecutor(2 * config.max_actors + 4 + MOST_WAITING, "transport")
        self._server = grpc.server(pool, interceptors=(self._admission,), options=server_options(config))
        self._server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, self._handlers())])
        self.address = listen(self._server, config)
        self._server.start()

    # --- the learner's side ------------------------------------------------------------------------------------------

    def publish(self, version: int, state: State) -> None:
        """Give all actors a policy, now and when they join."""
        policy = pack_policy(version, state)
        with self._news:
            self._policy = policy
            self._news.notify_all()

    def guide(self, *, room: int, stop: bool, env_steps: int) -> None:
        """Tell all actors what to do (``Guidance`` in messages.proto); at once if it changes but for ``env_steps``.

        Args:
            room: how many steps may come yet before actors are held; 0 or less: they are held now. Each actor is given
                an equal share: one whose world waits takes no more by itself, however late it hears that it is held.
            stop: the run is over.
            env_steps: that the learner has taken in.
        """
        with self._news:
            before = self._urgent(), self._leases.shares()
            self._room, self._stop, self._env_steps = room, stop, env_steps
            self._leases.share(self._room)
            if (self._urgent(), self._leases.shares()) != before:
                self._news.notify_all()

    @property
    def paused(self) -> bool:
        """Whether a person wants actors to begin no episode, whatever ``guide`` says."""
        return self._paused

    def pause(self, paused: bool) -> None:
        """Set :attr:`paused`, and tell all actors at once."""
        with self._news:
            self._paused = paused
            self._news.notify_all()

    def watch(self, watched: bool) -> None:
        """Tell all actors whether somebody watches, so that their pictures are of use."""
        with self._news:
            self._watched = watched
            self._news.notify_all()

    def order(self, actor: str, order: str) -> bool:
        """Tell an actor what a person says about its episode, at most once; return whether it is connected."""
        with self._news:
            lease = self._leases.get(actor)
            if lease is None or not lease.is_present(self._clock.now_ns()):
                return False
            lease.orders.append(order)
            self._news.notify_all()
            return True

    def actors(self) -> dict[str, ActorView]:
        """Return what is known of each actor that joined since the start."""
        with self._news:
            return self._leases.views()

    def take_commands(self) -> list[str]:
        """Return what operators, and people at robots, asked for since the last call; see :data:`COMMANDS`."""
        with self._news:
            commands, self._commands = self._commands, []
            return commands

    @property
    def refusals(self) -> Mapping[str, int]:
        """How many requests were refused, by kind."""
        return self._admission.refusals

    def take_notes(self) -> list[str]:
        """Return what people should know of since the last call: joins, and of refusals each kind ever more rarely."""
        return self._admission.take_notes()

    def close(self, grace_seconds: float = 1.0) -> None:
        """End all calls and stop listening."""
        with self._news:
            self._stopping = True
            self._news.notify_all()
        self._server.stop(grace_seconds).wait()

    # --- calls -------------------------------------------------------------------------------------------------------

    def _handlers(self) -> dict[str, Any]:
        unary = grpc.stream_unary_rpc_method_handler
        return {
            JOIN.name: unary(self._admission.guarded(JOIN, self._join)),
            EXCHANGE.name: unary(self._admission.guarded(EXCHANGE, self._exchange, read_exchange)),
            CONTROL.name: unary(self._admission.guarded(CONTROL, self._control)),
            WATCH.name: grpc.stream_stream_rpc_method_handler(self._admission.guarded(WATCH, self._watch)),
        }

    def _check_run(self, context: Any, run: str) -> None:
        if run != self.run:
            text = f"this learner is of run {self.run}, not of {run or 'none'}; connect to the learner of that run"
            self._admission.refuse(context, Code.FAILED_PRECONDITION, "run", text)

    def _check_fit(self, request: Any, context: Any) -> None:
        """Refuse an actor that does not fit this learner."""
        if request.protocol != PROTOCOL:
            text = f"the learner speaks protocol {PROTOCOL}, the actor {request.protocol}; install one robo-rl on both"
            self._admission.refuse(context, Code.FAILED_PRECONDITION, "protocol", text)
        if request.run:
            self._check_run(context, request.run)
        try:
            facts = parse_json(request.facts, "the facts", finite=False)
            differences = self._check(facts)
        except (ValueError, LookupError, TypeError, AttributeError, RoboRLError) as error:
            self._admission.refuse(context, Code.INVALID_ARGUMENT, "form", f"the actor's facts cannot be read: {error}")
        if differences:
            text = f"the actor does not fit the learner: {'; '.join(differences)}"[:4000]
            self._admission.refuse(context, Code.FAILED_PRECONDITION, "facts", text)

    def _join(self, request: Any, context: Any) -> Any:
        self._check_fit(request, context)
        name, session = request.actor, request.session
        if request.newest_session > LAST_NUMBER:
            self._admission.refuse(context, Code.INVALID_ARGUMENT, "form", f"session numbers end at {LAST_NUMBER}")
        if session and not self._inbox.has_session(name, session):
            text = f"{name} has no session {session} here: the learner's replay was replaced; start the actor anew"
            self._admission.refuse(context, Code.FAILED_PRECONDITION, "session", text)
        with self._news:
            lease = self._leases.get(name)
            if lease is not None and session and lease.session > session:
                text = f"another actor has taken the name {name}; give each actor a name of its own"
                self._admission.refuse(context, Code.ALREADY_EXISTS, "session", text)
            most = self._config.max_actors
            if self._leases.present_beside(name) >= most:
                self._admission.postpone(context, PRESENT_SECONDS, "actors", f"{most} actors are connected already")
            if not session:
                session = self._open_session(name, request)
            if lease is not None and lease.session == session:
                lease.seen_ns = self._clock.now_ns()
                lease.watch += 1  # what it watched before went over a connection that is lost
                self._news.notify_all()
            else:
                self._leases.grant(name, session)
                self._leases.share(self._room)
                self._admission.note(f"{name} joined (session {session})")
                self._admission.welcome(name)
        return messages.JoinReply(
            run=self.run,
            incarnation=self.incarnation,
            session=session,
            message_bytes=self._config.message_bytes,
        )

    def _open_session(self, name: str, request: Any) -> int:
        """Return the number of a new session; older ones of which the actor holds nothing end."""
        session = self._inbox.open_session(name, request.newest_session)
        held = set(request.held_sessions)
        for old in [old for actor, old in list(self._decoders) if actor == name and old not in held]:
            self._end_session(name, old)
        return session

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
            text = "steps of these numbers cannot have been lost: its spool is damaged; give it another actor.spool"
            self._admission.refuse(context, Code.INVALID_ARGUMENT, "form", text)
        if any(later != earlier + 1 for earlier, later in itertools.pairwise(sequences)):
            self._admission.refuse(context, Code.INVALID_ARGUMENT, "form", "records are not in sequence")
        if request.end_run:
            self._ask_to_end(request.actor)
        blocked = self._inbox.blocked()
        with lease.lock:
            lease.seen_ns = self._clock.now_ns()
            lease.statistics = trusted_statistics(request.statistics)
            lease.hear()
            if lease.statistics.pictures:
                lease.pictures = dict(lease.statistics.pictures)
                lease.statistics.pictures.clear()
            if not blocked:
                self._take_in(key, request, records)
            progress = self._inbox.progress(*key)
        return messages.ExchangeReply(
            wanted=progress.wanted,
            settled=progress.settled,
            stored=progress.stored,
            refused=progress.refused,
            blocked=blocked,
        )

    def _ask_to_end(self, actor: str) -> None:
        """Take the wish of a person at a robot as the command that it is."""
        self._admission.note(f"A person at {actor} ends the run")
        with self._news:
            self._commands.append("stop")

    def _take_in(self, key: tuple[str, int], request: Any, records: list[ReceivedRecord]) -> None:
        wanted = self._inbox.progress(*key).wanted
        if wanted < request.first_available:
            lost = Refusal(wanted, request.first_available - wanted, "lost: the actor's spool no longer holds it")
            self._decoders.pop(key, None)
            self._inbox.offer(*key, [lost])
            wanted = request.first_available
        fresh = [record for record in records if record.message.sequence >= wanted]
        # Records that begin later than wanted are left: the reply says from where to send.
        if fresh and fresh[0].message.sequence == wanted:
            decoder = self._decoders.setdefault(key, RecordDecoder(self._spec, *key))
            self._inbox.offer(*key, decoder.decode(fresh))
            self._use_room(len(fresh))
            wanted = fresh[-1].message.sequence + 1
        if request.session_ended and (not records or wanted > records[-1].message.sequence):
            self._end_session(*key)

    def _use_room(self, steps: int) -> None:
        with self._news:
            before = self._urgent()
            self._room -= steps
            if self._urgent() != before:
                self._news.notify_all()

    def _end_session(self, actor: str, session: int) -> None:
        self._decoders.pop((actor, session), None)
        self._inbox.close_session(actor, session)
        lease = self._leases.get(actor)
        if lease is not None and lease.session == session:
            lease.left = True

    def _watch(self, request: Any, context: Any) -> Iterator[Any]:
        lease = self._lease(request, context)
        sent = request.policy_version, request.policy_sha256
        told: tuple[bool, bool, bool, int] | None = None
        with self._news:
            lease.watch += 1
            watch = lease.watch
            self._news.notify_all()
        while True:
            with self._news:
                self._wait_for_news(lease, watch, sent, told)
                # Where another stream has begun nobody reads this one, though its connection may seem to last.
                if self._stopping or lease.watch != watch or not context.is_active():
                    return
                policy, told = self._policy, (*self._urgent(), lease.until)
                hold, stop, watched, until = told
                orders, lease.orders = lease.orders, []
                env_steps = self._env_steps
            self._lease(request, context)
            yield messages.Notice(
                guidance=messages.Guidance(
                    hold=hold, stop=stop, env_steps=env_steps, watched=watched, orders=orders, until=until
                )
            )
            if policy is not None and policy.identity != sent:
                for chunk in policy.chunks():
                    yield messages.Notice(policy=chunk)
                sent = policy.identity

    def _wait_for_news(
        self, lease: Lease, watch: int, sent: tuple[int, bytes], told: tuple[bool, bool, bool, int] | None
    ) -> None:
        def is_new() -> bool:
            policy = self._policy
            has_policy = policy is not None and policy.identity != sent
            is_over = self._stopping or lease.watch != watch
            return is_over or has_policy or bool(lease.orders) or told != (*self._urgent(), lease.until)

        self._news.wait_for(is_new, PING_SECONDS)

    def _urgent(self) -> tuple[bool, bool, bool]:
        """Return what all actors are told at once: hold, stop, watched."""
        return self._room <= 0 or self._paused, self._stop, self._watched

    def _control(self, request: Any, context: Any) -> Any:
        if request.run:
            self._check_run(context, request.run)
        if not is_command(request.command):
            text = f"unknown command {request.command!r}; valid: {', '.join(COMMANDS)}"
            self._admission.refuse(context, Code.INVALID_ARGUMENT, "command", text)
        if (wanted_actors(request.command) or 0) > self._config.max_actors:
            text = f"at most {self._config.max_actors} actors can be connected (runtime.transport.max_actors)"
            self._admission.refuse(context, Code.INVALID_ARGUMENT, "command", text)
        with self._news:
            self._commands.append(request.command)
        return messages.ControlReply(run=self.run, message=f"{request.command}: accepted")

    def _lease(self, request: Any, context: Any) -> Lease:
        self._check_run(context, request.run)
        lease = self._leases.get(request.actor)
        if request.incarnation != self.incarnation or lease is None or request.session > lease.session:
            self._admission.refuse(context, Code.ABORTED, "stale", "the learner was started anew; join again")
        if request.session < lease.session:
            text = f"session {request.session} of {request.actor} was replaced by {lease.session}"
            self._admission.refuse(context, Code.ALREADY_EXISTS, "session", text)
        return lease
