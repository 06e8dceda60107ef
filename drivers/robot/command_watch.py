"""Watch that stops a robot whose control loop has stopped sending commands."""

import threading
from collections.abc import Callable

from robo_rl.core import Clock, announce

from ..ros2 import Node
from .config import RobotConfig


class CommandWatch:
    """Watch that stops a robot if no command follows the last one in time, because a policy or a safety filter hangs.

    After velocities, efforts or twists, zeros are sent. A robot that takes targets reaches the last one and stays
    there: commanding it back to its measured position would be a motion that no safety filter checks.

    The watch runs in the thread of the driver's node. It cannot help if some code keeps all other threads of the
    process from running.

    Args:
        node: node of the driver.
        clock: monotonic clock.
        config: configuration of the robot; ``command.timeout`` is the time after the last command.
        stop: stops a motion that would continue; called once, until the next command, with the lock held.

    Attributes:
        lock: must be held while commands are computed and sent, because both threads do that.
    """

    def __init__(self, node: Node, clock: Clock, config: RobotConfig, stop: Callable[[], None]) -> None:
        self._clock, self._config, self._stop = clock, config, stop
        self.lock = threading.Lock()
        self._sent_ns: int | None = None
        self._is_reported = False
        node.create_timer(config.command.timeout / 4, self._stop_when_late)

    def sent(self) -> None:
        """Expect a further command in time. The lock must be held."""
        self._sent_ns = self._clock.now_ns()

    def rest(self) -> None:
        """Expect no further command: the episode ends, and the robot is held. The lock must be held."""
        self._sent_ns, self._is_reported = None, False

    def _stop_when_late(self) -> None:
        timeout = self._config.command.timeout
        with self.lock:
            if self._sent_ns is None or self._clock.now_ns() - self._sent_ns <= timeout * 1e9:
                return
            self._sent_ns = None
            self._stop()
            is_reported, self._is_reported = self._is_reported, True
        if not is_reported:
            announce(
                f"Robot {self._config.name} is not moved any further: no command followed within {timeout:g} s. The "
                "policy, a safety filter or the learner in this process takes too long, or a person pauses"
            )
