"""Learner's end of the transport."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc

from robo_rl.core import Clock, EnvSpec, MonotonicClock, State, TransitionInbox

from .admission import Admission
from .calls import LearnerCalls
from .config import TransportConfig
from .leases import Leases
from .memory import keep_freed_memory
from .notices import Notices
from .service import SERVICE, listen, server_options
from .streams import NoticeStreams
from .views import ActorView
from .waiting import MOST_WAITING

LEASES_PER_ACTOR = 4
"""Number of actors that a learner remembers, per actor that may be connected."""


class LearnerServer:
    """Server of the learner: it receives steps and sends policies and guidance.

    :class:`.LearnerCalls` answers the calls, in the threads of gRPC.

    Args:
        config: configuration of the transport.
        run: identity of the run; steps of other runs are refused.
        spec: spec of the environment.
        inbox: inbox that receives the steps.
        check: called with the facts that an actor joins with; returns one line for each that does not match.
        clock: monotonic clock.
        paused: see :meth:`pause`.

    Attributes:
        run: identity of the run.
        address: address on which the server listens.
        incarnation: identity of this process, new with every start.

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
        clock = clock or MonotonicClock()
        self.run = run
        self._admission = Admission(config, clock)
        self._leases = Leases(inbox, clock, LEASES_PER_ACTOR * config.max_actors)
        self._notices = Notices(self._leases, clock, paused, NoticeStreams(config.max_actors))
        self._calls = LearnerCalls(config, run, spec, inbox, check, clock, self._admission, self._leases, self._notices)
        self.incarnation = self._calls.incarnation
        self.take_words = self._leases.take_words
        # The Watch stream of each actor occupies one thread, and its Exchange calls briefly occupy another.
        pool = ThreadPoolExecutor(2 * config.max_actors + 4 + MOST_WAITING, "transport")
        self._server = grpc.server(pool, interceptors=(self._admission,), options=server_options(config))
        self._server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, self._calls.handlers())])
        self.address = listen(self._server, config)
        self._server.start()
        if config.host is not None:
            self._admission.strangers.watch(int(self.address.rpartition(":")[2]))

    def publish(self, version: int, state: State) -> None:
        """Send a policy to all actors, now and when they join."""
        self._notices.publish(version, state)

    def guide(self, *, room: int, stop: bool, env_steps: int) -> None:
        """Send guidance to all actors; see :meth:`.Notices.guide`."""
        self._notices.guide(room=room, stop=stop, env_steps=env_steps)

    @property
    def paused(self) -> bool:
        """Whether the operator has paused the run: actors begin no episode, regardless of :meth:`guide`."""
        return self._notices.paused

    @property
    def is_over(self) -> bool:
        """Whether the run is over, according to the last call of :meth:`guide`."""
        return self._notices.is_over

    def pause(self, paused: bool) -> None:
        """Set :attr:`paused` and notify all actors at once."""
        self._notices.pause(paused)

    def watch(self, watched: bool) -> None:
        """Notify all actors whether an operator watches the run and needs their pictures."""
        self._notices.watch(watched)

    def order(self, actor: str, order: str) -> bool:
        """Send an operator's order about its episode to an actor, at most once; return whether it is connected."""
        return self._notices.order(actor, order)

    def actors(self) -> dict[str, ActorView]:
        """Return the state of each actor that has joined since the start."""
        with self._notices.news:
            return self._leases.views()

    def take_commands(self) -> list[str]:
        """Return the commands of operators, at the learner and at robots, since the last call; see :data:`COMMANDS`."""
        return self._calls.take_commands()

    @property
    def refusals(self) -> Mapping[str, int]:
        """Number of refused requests by kind."""
        return self._admission.refusals

    def take_notes(self) -> list[str]:
        """Return the messages for the operator since the last call; see :meth:`.Admission.take_notes`."""
        return self._admission.take_notes()

    def close(self, grace_seconds: float = 1.0) -> None:
        """End all calls and stop listening."""
        self._notices.close()
        self._server.stop(grace_seconds).wait()
        self._admission.strangers.close()
