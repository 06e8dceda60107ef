"""Emergency stop of a robot whose controller continues to move it although it was commanded to hold."""

from robo_rl.core import EmergencyStop, SafetyStop, announce

from .config import RobotConfig


class UnheldStop:
    """Presses a robot's emergency stop when it does not hold, and ends the reset that follows.

    Args:
        config: configuration of the robot.
    """

    def __init__(self, config: RobotConfig) -> None:
        self._config = config
        self._text = ""

    def stop(self, reason: str) -> None:
        """Press the emergency stop because of ``reason``; may be called in any thread."""
        name, action = self._config.name, self._config.command.topic
        self._text = text = f"robot {name} was told to stay where it is, but {action} goes on: {reason}"
        EmergencyStop(robot=name).press(text)
        announce(
            f"Stopped: {text}. It may be moving: press its own button, look at it and at the server of {action}, then "
            f"robo-rl rearm robot={name}"
        )

    def check(self) -> None:
        """Raise :class:`SafetyStop` if :meth:`stop` was called since the last check."""
        text, self._text = self._text, ""
        if text:
            raise SafetyStop("not_held", text)
