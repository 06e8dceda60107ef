"""Service that brings arm and scene to the start of an episode."""

from robo_rl.core import RESET_SHARED, RESET_UNANSWERED, ROBOT_AWAY, Clock, DriverError, ResetLatch, SafetyStop

from ..ros2 import Node, ServerLostError
from ..ros2.answers import Servers
from .config import ResetConfig
from .namesakes import served_instead

TRIGGER = "std_srvs/srv/Trigger"
POLL_NS = 50_000_000
AWAY_SECONDS = 2.0
"""Longest wait for the service before the robot counts as away."""


class ResetService:
    """Client of the reset service. It repeats a failed reset, but never while an earlier reset may still be running.

    From the request to the answer, the client holds a latch that outlives this process (:class:`ResetLatch`). If there
    is no answer, the latch remains until a person has looked at the robot. If the server ends before it answers and
    another server replaces it, the reset ended with the old server, and the new server is called at once.

    Args:
        node: node of the driver.
        config: name of the service, number of attempts and time limits.
        clock: monotonic clock.
        robot: name of the robot.
    """

    def __init__(self, node: Node, config: ResetConfig, clock: Clock, robot: str) -> None:
        self._node, self._config, self._clock = node, config, clock
        self._client = node.create_client(TRIGGER, config.service)
        self._latch = ResetLatch(robot)
        self._lost: Servers = frozenset()  # servers that ended or fell silent before they answered

    def missing(self) -> list[str]:
        """Return the service if it is not available."""
        if self._client.wait(0.0):
            shared = self._shared()
            return [shared] if shared else []
        return [
            f"no service {self._config.service} ({TRIGGER}){served_instead(self._node, self._client.service, TRIGGER)}"
        ]

    def call(self) -> None:
        """Reset arm and scene.

        Raises:
            SafetyStop: if every attempt fails, if the service is not available or has several servers, or if it did not
                answer in time, in this call or in an earlier one, even of another process.
        """
        config = self._config
        reason = ""
        for attempt in range(config.attempts):
            if attempt:
                self._clock.sleep_until_ns(self._clock.now_ns() + round(config.pause * 1e9))
            success, reason = self._ask()
            if success:
                return
        raise SafetyStop("reset_failed", f"the reset failed {config.attempts} times: {reason}")

    def _ask(self) -> tuple[bool, str]:
        """Call one server after another until one answers; return its answer."""
        config = self._config
        while True:
            self._await_server()
            self._take_latch()
            servers = self._client.servers()
            # checked again, because a server may have appeared during the wait for the latch
            if shared := self._shared():
                self._latch.release()
                raise SafetyStop(RESET_SHARED, shared)
            try:
                answer = self._client.call(self._node.types.make(f"{TRIGGER}_Request"), config.timeout)
            except ServerLostError:
                self._lost = servers
                continue
            except DriverError as error:
                self._latch.give_up()
                longer = "where its resets take longer, allow that (robot.reset.timeout)"
                raise SafetyStop(RESET_UNANSWERED, f"{error}; {longer}. {self._latch.describe()}") from error
            self._latch.release()
            return bool(answer.success), str(answer.message)

    def _take_latch(self) -> None:
        """Take the latch, after waiting for a reset of another process.

        Raises:
            SafetyStop: if an earlier reset may still be running.
        """
        deadline_ns = self._clock.now_ns() + round(self._config.timeout * 1e9)
        while (problem := self._latch.take()) is not None:
            if not self._latch.is_under_way() or self._clock.now_ns() >= deadline_ns:
                raise SafetyStop(RESET_UNANSWERED, problem)
            self._clock.sleep_until_ns(self._clock.now_ns() + POLL_NS)

    def _await_server(self) -> None:
        """Wait briefly for a server that may be called.

        Raises:
            SafetyStop: if there is none, if there are several, or if the server that fell silent is back: its reset may
                still be running.
        """
        config = self._config
        if not self._client.wait(min(config.timeout, AWAY_SECONDS)):
            raise SafetyStop(ROBOT_AWAY, f"no service {config.service} ({TRIGGER}): it is waited for")
        if self._lost and self._client.servers() <= self._lost:
            self._lost = frozenset()
            self._latch.give_up()
            raise SafetyStop(RESET_UNANSWERED, self._latch.describe())
        if shared := self._shared():
            raise SafetyStop(RESET_SHARED, shared)
        if self._lost:
            self._lost = frozenset()
            self._latch.release()

    def _shared(self) -> str:
        """Return the fault of a service that has several servers, and an empty string otherwise."""
        count = len(self._client.servers())
        if count < 2:
            return ""
        return (
            f"service {self._config.service} ({TRIGGER}) has {count} servers, and each would move the robot: end all "
            "but one of them (one that crashed is forgotten within 10 to 20 s)"
        )
