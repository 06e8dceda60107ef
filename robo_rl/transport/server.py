"""The learner's end of the wire."""

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
from .views import ActorView
from .waiting import MOST_WAITING


class LearnerServer:
    """Takes steps in, gives policies and guidance out. :class:`.LearnerCalls` answers, in threads of gRPC.

    Args:
        config: of the wire.
        run: identity of the run; steps of other runs are refused.
        spec: of the environment.
        inbox: where steps go.
        check: given the facts that an actor joins with; returns one line for each that does not fit.
        clock: monotonic time.
        paused: see :meth:`pause`.

    Attributes:
        run: as given.
        address: at which it listens.
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
        self._leases = Leases(inbox, clock)
        self._notices = Notices(self._leases, clock, paused)
        self._calls = LearnerCalls(config, run, spec, inbox, check, clock, self._admission, self._leases, self._notices)
        self.incarnation = self._calls.incarnation
        self.take_words = self._leases.take_words
        # Each actor keeps one thread by its Watch, and another for the moment of an Exchange.
        pool = ThreadPoolExecutor(2 * config.max_actors + 4 + MOST_WAITING, "transport")
        self._server = grpc.server(pool, interceptors=(self._admission,), options=server_options(config))
        self._server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, self._calls.handlers())])
        self.address = listen(self._server, config)
        self._server.start()

    def publish(self, version: int, state: State) -> None:
        """Give all actors a policy, now and when they join."""
        self._notices.publish(version, state)

    def guide(self, *, room: int, stop: bool, env_steps: int) -> None:
        """Tell all actors what to do; see :meth:`.Notices.guide`."""
        self._notices.guide(room=room, stop=stop, env_steps=env_steps)

    @property
    def paused(self) -> bool:
        """Whether a person wants actors to begin no episode, whatever ``guide`` says."""
        return self._notices.paused

    def pause(self, paused: bool) -> None:
        """Set :attr:`paused`, and tell all actors at once."""
        self._notices.pause(paused)

    def watch(self, watched: bool) -> None:
        """Tell all actors whether somebody watches, so that their pictures are of use."""
        self._notices.watch(watched)

    def order(self, actor: str, order: str) -> bool:
        """Tell an actor what a person says about its episode, at most once; return whether it is connected."""
        return self._notices.order(actor, order)

    def actors(self) -> dict[str, ActorView]:
        """Return what is known of each actor that joined since the start."""
        with self._notices.news:
            return self._leases.views()

    def take_commands(self) -> list[str]:
        """Return what operators, and people at robots, asked for since the last call; see :data:`COMMANDS`."""
        return self._calls.take_commands()

    @property
    def refusals(self) -> Mapping[str, int]:
        """How many requests were refused, by kind."""
        return self._admission.refusals

    def take_notes(self) -> list[str]:
        """Return what people should know of since the last call: joins, and of refusals each kind ever more rarely."""
        return self._admission.take_notes()

    def close(self, grace_seconds: float = 1.0) -> None:
        """End all calls and stop listening."""
        self._notices.close()
        self._server.stop(grace_seconds).wait()
