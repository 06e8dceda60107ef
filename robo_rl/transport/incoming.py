"""What an actor knows of its learner."""

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from robo_rl.core import State, TransportError

from .policy import PolicyAssembly, unpack_policy
from .views import LinkStatus


class LearnerNews:
    """The newest status, policy and orders of a learner; written by the threads of a link, read by the control loop.

    Attributes:
        policy_identity: version and checksum of the newest policy that came whole.
        error: why the link has ended for good; None: it has not.
        closing: whether the actor leaves.
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
        """What is known now."""
        return self._status

    @property
    def is_over(self) -> bool:
        """Whether nothing is sent or received any more."""
        return self.closing or self.error is not None

    def set_status(self, **changes: Any) -> None:
        """Change fields of :attr:`status`."""
        with self._changed:
            self._status = replace(self._status, **changes)

    def take_orders(self) -> list[str]:
        """Return what a person said about the episode since the last call: ``reset``, ``success``, ``failure``."""
        with self._changed:
            orders, self._orders = self._orders, []
            return orders

    def take_policy(self) -> tuple[int, State] | None:
        """Return version and arrays of a policy that came since the last call, else None."""
        with self._changed:
            policy, self._policy = self._policy, None
            return policy

    def take_in(self, notice: Any, assembly: PolicyAssembly) -> None:
        """Take note of a ``Notice``.

        Args:
            notice: of the learner.
            assembly: of the policy that comes with it in pieces.

        Raises:
            CheckpointError: if what came is no policy.
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
                self._orders += guidance.orders
        if notice.HasField("policy") and (message := assembly.add(notice.policy)) is not None:
            policy = message.version, unpack_policy(message)
            with self._changed:
                self.policy_identity = message.identity
                self._policy = policy
                self._changed.notify_all()

    def wait_for_policy(self, timeout: float) -> bool:
        """Return whether a policy is there to be taken, waiting for it up to ``timeout`` [s]."""
        self.wait(lambda: self._policy is not None, timeout)
        return self._policy is not None

    def wait(self, condition: Callable[[], bool], timeout: float) -> None:
        """Wait up to ``timeout`` [s] for a condition, or the end of the link."""
        with self._changed:
            self._changed.wait_for(lambda: condition() or self.is_over, timeout)

    def notify(self) -> None:
        """Have those who wait look again."""
        with self._changed:
            self._changed.notify_all()

    def give_up(self, error: TransportError) -> None:
        """End the link for good."""
        with self._changed:
            self.error = error
            self._changed.notify_all()

    def close(self) -> None:
        """End the link, as the actor leaves."""
        with self._changed:
            self.closing = True
            self._changed.notify_all()
