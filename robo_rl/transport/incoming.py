"""Messages that an actor receives from its learner: status, policy and orders."""

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from robo_rl.core import State, TransportError

from .policy import PolicyAssembly, unpack_policy
from .views import LinkStatus

ORDERS = ("reset", "success", "failure")
"""The operator's orders about an episode."""
MOST_ORDERS = 16
"""Largest number of orders that wait for the control loop, which reads none while a robot is brought back."""


class LearnerNews:
    """Newest status, policy and orders of a learner, written by a link's threads and read by the control loop.

    Attributes:
        policy_identity: version and checksum of the newest policy that was received completely.
        error: why the link has ended permanently; None: it has not.
        closing: whether the actor is leaving.
    """

    def __init__(self) -> None:
        self.policy_identity = (-1, b"")
        self.error: TransportError | None = None
        self.closing = False
        self._status = LinkStatus()
        self._orders: list[str] = []
        self._policy: tuple[int, State] | None = None
        self._changed = threading.Condition()

    @property
    def status(self) -> LinkStatus:
        """Current status of the link."""
        return self._status

    @property
    def is_over(self) -> bool:
        """Whether the link has ended."""
        return self.closing or self.error is not None

    def set_status(self, **changes: Any) -> None:
        """Change fields of :attr:`status`."""
        with self._changed:
            self._status = replace(self._status, **changes)

    def take_orders(self) -> list[str]:
        """Return the operator's :data:`ORDERS` since the last call, at most the newest few."""
        with self._changed:
            orders, self._orders = self._orders, []
            return orders

    def take_policy(self) -> tuple[int, State] | None:
        """Return version and arrays of the newest policy since the last call, or None."""
        with self._changed:
            policy, self._policy = self._policy, None
            return policy

    def take_in(self, notice: Any, assembly: PolicyAssembly) -> None:
        """Process a ``Notice``.

        Args:
            notice: notice from the learner.
            assembly: assembly of the policy whose chunks come with the notices.

        Raises:
            CheckpointError: if the chunks are not a valid policy.
        """
        if notice.HasField("guidance"):
            guidance = notice.guidance
            self.set_status(
                hold=guidance.hold,
                stop=guidance.stop,
                env_steps=guidance.env_steps,
                watched=guidance.watched,
                until=guidance.until,
            )
            with self._changed:
                self._orders = [*self._orders, *(order for order in guidance.orders if order in ORDERS)][-MOST_ORDERS:]
        if notice.HasField("policy") and (message := assembly.add(notice.policy)) is not None:
            policy = message.version, unpack_policy(message)
            with self._changed:
                self.policy_identity = message.identity
                self._policy = policy
                self._changed.notify_all()

    def wait_for_policy(self, timeout: float) -> bool:
        """Wait up to ``timeout`` [s] for a policy; return whether :meth:`take_policy` has one."""
        self.wait(lambda: self._policy is not None, timeout)
        return self._policy is not None

    def wait(self, condition: Callable[[], bool], timeout: float) -> None:
        """Wait up to ``timeout`` [s] for ``condition`` or the end of the link."""
        with self._changed:
            self._changed.wait_for(lambda: condition() or self.is_over, timeout)

    def notify(self) -> None:
        """Make waiting threads check their conditions again."""
        with self._changed:
            self._changed.notify_all()

    def give_up(self, error: TransportError) -> None:
        """End the link permanently."""
        with self._changed:
            self.error = error
            self._changed.notify_all()

    def close(self) -> None:
        """End the link because the actor leaves."""
        with self._changed:
            self.closing = True
            self._changed.notify_all()
