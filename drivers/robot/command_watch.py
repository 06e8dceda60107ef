"""A watch that holds a robot whose control loop has stopped sending commands."""

import threading
from collections.abc import Callable

from robo_rl.core import Clock

from ..ros2 import Node


class CommandWatch:
    """Holds a robot if no command follows the last one in time, because a policy or a safety filter hangs.

    The watch is in the thread of the driver's node. Code that keeps all other threads of its process from running keeps
    this one, too.

    Args:
        node: node of the driver.
        clock: monotonic clock.
        timeout: time after the last command at which the robot is held [s].
        hold: commands the robot to stay where it is; called once, until the next command, with the lock held.

    Attributes:
        lock: must be held while commands are computed and sent, as both threads do that.
    """

    def __init__(self, node: Node, clock: Clock, timeout: float, hold: Callable[[], None]) -> None:
        self._clock, self._timeout_ns, self._hold = clock, round(timeout * 1e9), hold
        self.lock = threading.Lock()
        self._sent_ns: int | None = None
        node.create_timer(timeout / 4, self._hold_when_late)

    def sent(self) -> None:
        """Expect a further command in time. The lock must be held."""
        self._sent_ns = self._clock.now_ns()

    def rest(self) -> None:
        """Expect no further command: the robot is held already. The lock must be held."""
        self._sent_ns = None

    def _hold_when_late(self) -> None:
        with self.lock:
            if self._sent_ns is not None and self._clock.now_ns() - self._sent_ns > self._timeout_ns:
                self._sent_ns = None
                self._hold()
