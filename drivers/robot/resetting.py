"""The service that brings arm and scene to the start of an episode."""

from robo_rl.core import RESET_UNANSWERED, ROBOT_AWAY, Clock, DriverError, ResetLatch, SafetyStop

from ..ros2 import Node, ServerLostError
from ..ros2.answers import Servers
from .config import ResetConfig

TRIGGER = "std_srvs/srv/Trigger"
POLL_NS = 50_000_000
AWAY_SECONDS = 2.0
"""Longest wait for the service before the robot counts as away."""


class ResetService:
    """Calls the reset again where it failed, and never while one that was called before may still be running.

    From before the request until the answer a latch is taken that outlives this process (:class:`ResetLatch`). One
    that did not answer keeps it until a person has looked at the robot. Where the server ended before it answered, and
    another server takes its place, the reset ended with it, and the new one is called at once.

    Args:
        node: of the driver.
        config: which service, how often and how long.
        clock: monotonic time.
        robot: name of the robot.
    """

    def __init__(self, node: Node, config: ResetConfig, clock: Clock, robot: str) -> None:
        self._node, self._config, self._clock = node, config, clock
        self._client = node.create_client(TRIGGER, config.service)
        self._latch = ResetLatch(robot)
        self._lost: Servers = frozenset()  # those that ended, or fell silent, before they answered

    def missing(self) -> list[str]:
        """Return the service where it is not there."""
        return [] if self._client.wait(0.0) else [f"no service {self._config.service} ({TRIGGER})"]

    def call(self) -> None:
        """Reset arm and scene.

        Raises:
            SafetyStop: if that fails every time; if the service is not there; if it does not answer in time, now or at
                an earlier call, of another process too.
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
        """Call the service of one server after another until one answers; return what it says."""
        config = self._config
        while True:
            self._await_server()
            servers = self._client.servers()
            self._take_latch()
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
        """Take the latch, after a reset that another process waits for.

        Raises:
            SafetyStop: if one was called that may still be running.
        """
        deadline_ns = self._clock.now_ns() + round(self._config.timeout * 1e9)
        while (problem := self._latch.take()) is not None:
            if not self._latch.is_under_way() or self._clock.now_ns() >= deadline_ns:
                raise SafetyStop(RESET_UNANSWERED, problem)
            self._clock.sleep_until_ns(self._clock.now_ns() + POLL_NS)

    def _await_server(self) -> None:
        """Wait a moment for a server that may be called.

        Raises:
            SafetyStop: if there is none, or the one that fell silent over the request before is back: it may go on.
        """
        config = self._config
        if not self._client.wait(min(config.timeout, AWAY_SECONDS)):
            raise SafetyStop(ROBOT_AWAY, f"no service {config.service} ({TRIGGER}): it is waited for")
        if not self._lost:
            return
        lost, self._lost = self._lost, frozenset()
        if self._client.servers() <= lost:
            self._latch.give_up()
            raise SafetyStop(RESET_UNANSWERED, self._latch.describe())
        self._latch.release()
