"""Errors of the platform. Each message states what was expected, what was found and what to do.

The command line prints a :class:`RoboRLError` as one line and exits with code 2; every other exception is a
defect of robo-rl and keeps its traceback.
"""

import difflib
from collections.abc import Container, Iterable


class RoboRLError(Exception):
    """Base of every error that a user can cause or fix."""


class ConfigError(RoboRLError):
    """A configuration key is unknown or its value is out of range."""


class SpecError(RoboRLError):
    """An array does not match its specification (shape, dtype, range, finiteness)."""


class DataError(RoboRLError):
    """Stored data is missing, damaged or was recorded for another task."""


class CheckpointError(RoboRLError):
    """A checkpoint is missing, damaged or belongs to another agent."""


class DivergenceError(RoboRLError):
    """Training diverged: a loss or parameter is not finite, or a value estimate exploded."""


class RenderingError(RoboRLError):
    """Images were requested, but this machine cannot render them."""


class TransportError(RoboRLError):
    """Actor and learner are incompatible, or one of them rejected the other."""


class DriverError(RoboRLError):
    """A device or robot did not answer as its driver expects."""


class RobotAwayError(DriverError):
    """A robot, or a part of it, is unreachable; it may come back."""


class RankError(RoboRLError):
    """Another of the processes that compute one learner's updates is gone or holds different parameters."""


class NativeBuildError(RoboRLError):
    """A C++ library of robo-rl cannot be compiled or loaded; the message gives the reason."""


EMERGENCY_STOP = "emergency_stop"
DEADMAN = "deadman"
GUARD_SILENT = "guard_silent"
RESET_SHARED = "reset_shared"
RESET_UNANSWERED = "reset_unanswered"
ROBOT_AWAY = "robot_away"


class SafetyStop(RoboRLError):  # noqa: N818 - an outcome, not a mistake
    """The robot was stopped before a step was complete; the episode is over.

    Attributes:
        reason: name of the cause, for counting, such as ``emergency_stop`` or ``observation_invalid``.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason

    @property
    def waits(self) -> bool:
        """Whether the stop ends without a new run: a person releases it, its guard looks, or the robot returns."""
        return self.reason in (EMERGENCY_STOP, DEADMAN, GUARD_SILENT, RESET_SHARED, RESET_UNANSWERED, ROBOT_AWAY)


def nearest(name: str, valid: Iterable[str], unsuggested: Container[str] = ()) -> str:
    """Return the end of an error message: the valid choices and, if one is similar, a suggestion.

    Choices in ``unsuggested`` are listed but not suggested.

    >>> nearest("pick_cub", ["reach", "pick_cube"])
    "did you mean 'pick_cube'? Valid: pick_cube, reach"
    """
    choices = sorted(valid)
    suggested = [choice for choice in choices if choice not in unsuggested]
    close = difflib.get_close_matches(name, suggested, n=1, cutoff=0.5)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return f"{hint}Valid: {', '.join(choices)}"
