"""The policies and the guidance that a learner gives its actors."""

import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from robo_rl.core import Clock, State

from . import messages_pb2 as messages
from .leases import Lease, Leases
from .policy import PolicyMessage, pack_policy

PING_SECONDS = 1.0

Guidance = tuple[bool, bool, bool, int]
"""Of one actor: hold, stop, watched, and the first step that is not wanted yet."""


class Notices:
    """What actors are told, in a stream to each of them.

    Args:
        leases: of the actors; read and changed by whoever holds :attr:`news`.
        clock: monotonic time.
        paused: see :meth:`pause`.

    Attributes:
        news: held while anything here, or a lease, changes; notified where actors are to be told.
        paused: whether a person wants actors to begin no episode, whatever :meth:`guide` says.
    """

    def __init__(self, leases: Leases, clock: Clock, paused: bool) -> None:
        self.news = threading.Condition()
        self.paused = paused
        self._leases = leases
        self._clock = clock
        self._policy: PolicyMessage | None = None
        self._room, self._stop, self._env_steps = sys.maxsize, False, 0
        self._watched = False
        self._closing = False

    def publish(self, version: int, state: State) -> None:
        """Give all actors a policy, now and when they join."""
        policy = pack_policy(version, state)
        with self.news:
            self._policy = policy
            self.news.notify_all()

    def guide(self, *, room: int, stop: bool, env_steps: int) -> None:
        """Tell all actors what to do (``Guidance`` in messages.proto); at once if it changes but for ``env_steps``.

        Args:
            room: how many steps may come yet before actors are held; 0 or less: they are held now. Each actor is given
                an equal share: one whose world waits takes no more by itself, however late it hears that it is held.
            stop: the run is over.
            env_steps: that the learner has taken in.
        """
        with self.news:
            before = self._urgent(), self._leases.shares()
            self._room, self._stop, self._env_steps = room, stop, env_steps
            self.share()
            if (self._urgent(), self._leases.shares()) != before:
                self.news.notify_all()

    def share(self) -> None:
        """Share the room among the actors that are connected now; for whoever holds :attr:`news`."""
        self._leases.share(self._room)

    def use_room(self, steps: int) -> None:
        """Take note that so many of the steps that may come yet have come."""
        with self.news:
            before = self._urgent()
            self._room -= steps
            if self._urgent() != before:
                self.news.notify_all()

    def pause(self, paused: bool) -> None:
        """Set :attr:`paused`, and tell all actors at once."""
        with self.news:
            self.paused = paused
            self.news.notify_all()

    def watch(self, watched: bool) -> None:
        """Tell all actors whether somebody watches, so that their pictures are of use."""
        with self.news:
            self._watched = watched
            self.news.notify_all()

    def order(self, actor: str, order: str) -> bool:
        """Tell an actor what a person says about its episode, at most once; return whether it is connected."""
        with self.news:
            lease = self._leases.get(actor)
            if lease is None or not lease.is_present(self._clock.now_ns()):
                return False
            lease.orders.append(order)
            self.news.notify_all()
            return True

    def close(self) -> None:
        """End all streams."""
        with self.news:
            self._closing = True
            self.news.notify_all()

    def stream(
        self, lease: Lease, known: tuple[int, bytes], is_active: Callable[[], bool], check: Callable[[], object]
    ) -> Iterator[Any]:
        """Yield the ``Notice`` messages of one actor, until its call is over or another stream of it begins.

        Args:
            lease: of the actor.
            known: identity of the policy that it has.
            is_active: whether the call goes on.
            check: refuses the call, by an error, where the lease does not hold any more.
        """
        told: Guidance | None = None
        with self.news:
            lease.watch += 1
            watch = lease.watch
            self.news.notify_all()
        while True:
            with self.news:
                self._wait_for_news(lease, watch, known, told)
                # Where another stream has begun nobody reads this one, though its connection may seem to last.
                if self._closing or lease.watch != watch or not is_active():
                    return
                policy, told = self._policy, (*self._urgent(), lease.until)
                hold, stop, watched, until = told
                orders, lease.orders = lease.orders, []
                env_steps = self._env_steps
            check()
            yield messages.Notice(
                guidance=messages.Guidance(
                    hold=hold, stop=stop, env_steps=env_steps, watched=watched, orders=orders, until=until
                )
            )
            if policy is not None and policy.identity != known:
                for chunk in policy.chunks():
                    yield messages.Notice(policy=chunk)
                known = policy.identity

    def _wait_for_news(self, lease: Lease, watch: int, known: tuple[int, bytes], told: Guidance | None) -> None:
        def is_new() -> bool:
            policy = self._policy
            has_policy = policy is not None and policy.identity != known
            is_over = self._closing or lease.watch != watch
            return is_over or has_policy or bool(lease.orders) or told != (*self._urgent(), lease.until)

        self.news.wait_for(is_new, PING_SECONDS)

    def _urgent(self) -> tuple[bool, bool, bool]:
        """Return what all actors are told at once: hold, stop, watched."""
        return self._room <= 0 or self.paused, self._stop, self._watched
