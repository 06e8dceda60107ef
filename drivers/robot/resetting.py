"""The service that brings arm and scene to the start of an episode."""

from robo_rl.core import Clock, DriverError, SafetyStop

from ..ros2 import Node, ServerLostError
from .config import ResetConfig

TRIGGER = "std_srvs/srv/Trigger"


class ResetService:
    """Calls the reset again where it failed, or its server ended, and never again once it did not answer in time.

    It may still be running then.

    Args:
        node: of the driver.
        config: which service, how often and how long.
        clock: monotonic time.
    """

    def __init__(self, node: Node, config: ResetConfig, clock: Clock) -> None:
        self._node, self._config, self._clock = node, config, clock
        self._client = node.create_client(TRIGGER, config.service)
        self._unanswered = ""

    def missing(self) -> list[str]:
        """Return the service where it is not there."""
        return [] if self._client.wait(0.0) else [f"no service {self._config.service} ({TRIGGER})"]

    def call(self) -> None:
        """Have arm and scene reset.

        Raises:
            SafetyStop: if that fails every time, or does not answer in time, now or at an earlier call.
        """
        if self._unanswered:
            raise SafetyStop("reset_failed", self._unanswered)
        config = self._config
        reason = ""
        for attempt in range(config.attempts):
            if attempt:
                self._clock.sleep_until_ns(self._clock.now_ns() + round(config.pause * 1e9))
            if not self._client.wait(config.timeout):
                reason = f"no service {config.service} ({TRIGGER})"
                continue
            try:
                answer = self._client.call(self._node.types.make(f"{TRIGGER}_Request"), config.timeout)
            except ServerLostError as error:
                reason = str(error)  # the request can have no answer: nobody is left who could give it
                continue
            except DriverError as error:
                self._unanswered = (
                    f"{error}: the reset may still be running. Look at the robot, then start again; where its resets "
                    "take longer, allow that (robot.reset.timeout)"
                )
                raise SafetyStop("reset_failed", self._unanswered) from error
            if answer.success:
                return
            reason = answer.message
        raise SafetyStop("reset_failed", f"the reset failed {config.attempts} times: {reason}")
