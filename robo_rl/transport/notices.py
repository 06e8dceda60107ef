"""Policies and guidance that a learner sends to its actors."""

import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from robo_rl.core import Clock, State

from . import messages_pb2 as messages
from .leases import Lease, Leases
from .policy import PolicyMessage, pack_policy
from .streams import NoticeStream, NoticeStreams, StreamCall

PING_SECONDS = 1.0

Guidance = tuple[bool, bool, bool, int]
"""Guidance of one actor: hold, stop, watched, and the number of the first step that is not wanted yet."""


class Notices:
    """Policies and the guidance for actors, sent in one stream per actor.

    Args:
        leases: leases of the actors, read and changed only while :attr:`news` is held.
        clock: monotonic clock.
        paused: see :meth:`pause`.
        streams: open streams.

    Attributes:
        news: condition that is held while this object or a lease changes, and notified when actors need a notice.
        paused: whether the operator has paused the run: actors begin no episode, regardless of :meth:`guide`.
    """

    def __init__(self, leases: Leases, clock: Clock, paused: bool, streams: NoticeStreams) -> None:
        self.news = threading.Condition()
        self.paused = paused
        self._leases = leases
        self._clock = clock
        self._streams = streams
        self._policy: PolicyMessage | None = None
        self._room, self._stop, self._env_steps = sys.maxsize, False, 0
        self._watched = False
        self._closing = False

    def publish(self, version: int, state: State) -> None:
        """Send a policy to all actors, now and when they join."""
        policy = pack_policy(version, state)
        with self.news:
            self._policy = policy
            self.news.notify_all()

    def guide(self, *, room: int, stop: bool, env_steps: int) -> None:
        """Send guidance to all actors (``Guidance`` in messages.proto), at once if more than ``env_steps`` changes.

        Args:
            room: number of steps that may still come before actors are held; 0 or less: they are held now. Each actor
                gets an equal share. An actor whose environment waits for it stops at its share on its own, however
                late the message to hold reaches it.
            stop: whether the run is over.
            env_steps: number of environment steps that the learner has taken in.
        """
        with self.news:
            previous = self._urgent(), self._leases.shares()
            self._room, self._stop, self._env_steps = room, stop, env_steps
            self.share()
            if (self._urgent(), self._leases.shares()) != previous:
                self.news.notify_all()

    def share(self) -> None:
        """Divide the room among the actors that are connected now. The caller must hold :attr:`news`."""
        self._leases.share(self._room)

    def use_room(self, steps: int) -> None:
        """Reduce the room by ``steps`` that have arrived."""
        with self.news:
            previous = self._urgent()
            self._room -= steps
            if self._urgent() != previous:
                self.news.notify_all()

    def pause(self, paused: bool) -> None:
        """Set :attr:`paused` and notify all actors at once."""
        with self.news:
            self.paused = paused
            self.news.notify_all()

    def watch(self, watched: bool) -> None:
        """Notify all actors whether an operator watches the run and needs their pictures."""
        with self.news:
            self._watched = watched
            self.news.notify_all()

    def order(self, actor: str, order: str) -> bool:
        """Send an operator's order about its episode to an actor, at most once; return whether it is connected."""
        with self.news:
            lease = self._leases.get(actor)
            if lease is None or not lease.is_present(self._clock.now_ns()):
                return False
            lease.orders.append(order)
            self.news.notify_all()
            return True

    @property
    def is_over(self) -> bool:
        """Whether the run is over, according to the last call of :meth:`guide`."""
        return self._stop

    def close(self) -> None:
        """End all streams."""
        with self.news:
            self._closing = True
            self.news.notify_all()

    def stream(
        self, lease: Lease, known: tuple[int, bytes], call: StreamCall, check: Callable[[], object]
    ) -> Iterator[Any]:
        """Yield the ``Notice`` messages of one actor, until its call ends or it opens another stream.

        Args:
            lease: lease of the actor.
            known: identity of the policy that the actor has.
            call: call of the actor.
            check: raises an error, which refuses the call, if the lease is no longer valid.
        """
        with self.news:
            stream = self._streams.open(lease, call)
            self.news.notify_all()
        try:
            for notice in self._notices(stream, known, check):
                stream.is_sending = True
                yield notice
                stream.is_sending = False
        finally:
            self._streams.close(stream)

    def _notices(self, stream: NoticeStream, known: tuple[int, bytes], check: Callable[[], object]) -> Iterator[Any]:
        lease = stream.lease
        last_guidance: Guidance | None = None
        while True:
            with self.news:
                self._wait_for_news(stream, known, last_guidance)
                # Another stream has replaced this one, which its client no longer reads even if the connection seems
                # alive.
                if self._closing or stream.is_replaced or not stream.call.is_active():
                    return
                policy, last_guidance = self._policy, (*self._urgent(), lease.until)
                hold, stop, watched, until = last_guidance
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

    def _wait_for_news(self, stream: NoticeStream, known: tuple[int, bytes], last_guidance: Guidance | None) -> None:
        lease = stream.lease

        def is_new() -> bool:
            policy = self._policy
            has_policy = policy is not None and policy.identity != known
            is_over = self._closing or stream.is_replaced
            return is_over or has_policy or bool(lease.orders) or last_guidance != (*self._urgent(), lease.until)

        self.news.wait_for(is_new, PING_SECONDS)

    def _urgent(self) -> tuple[bool, bool, bool]:
        """Return the guidance whose changes are sent to all actors at once: hold, stop, watched."""
        return self._room <= 0 or self.paused, self._stop, self._watched
