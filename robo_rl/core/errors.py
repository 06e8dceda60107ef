"""Errors of the platform. Each message says what was expected, what came and what to do.

The command line prints a :class:`RoboRLError` as one line and exits with code 2; every other exception is a
defect of ours and keeps its traceback.
"""

import difflib
from collections.abc import Container, Iterable


class RoboRLError(Exception):
    """Base of every error that a user can cause or mend."""


class ConfigError(RoboRLError):
    """A configuration key is unknown or its value is out of range."""


class SpecError(RoboRLError):
    """An array does not fit its specification (shape, dtype, range, finiteness)."""


class DataError(RoboRLError):
    """Stored data is missing, damaged or was recorded for another task."""


class CheckpointError(RoboRLError):
    """A checkpoint is missing, damaged or belongs to another agent."""


class DivergenceError(RoboRLError):
    """Training diverged: a loss or parameter is not finite, or a value estimate exploded."""


class RenderingError(RoboRLError):
    """Images were asked for and this machine cannot render them."""


class TransportError(RoboRLError):
    """Actor and learner do not fit together, or one of them refused the other."""


class DriverError(RoboRLError):
    """A device or robot did not answer as its driver expects."""


class RobotAwayError(DriverError):
    """A robot is not there, or not all of it; it may come back."""


class RankError(RoboRLError):
    """Of several processes that compute one learner's updates, another one is gone or holds other parameters."""


class NativeBuildError(RoboRLError):
    """A C++ library of ours cannot be compiled or loaded here; the message says why."""


EMERGENCY_STOP = "emergency_stop"
DEADMAN = "deadman"
GUARD_SILENT = "guard_silent"
RESET_UNANSWERED = "reset_unanswered"
ROBOT_AWAY = "robot_away"


class SafetyStop(RoboRLError):  # noqa: N818 - an outcome, not a mistake
    """The robot was stopped before a step was complete; the episode is over.

    Attributes:
        reason: name of the cause, for counting: ``emergency_stop``, ``observation_invalid``.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason

    @property
    def waits(self) -> bool:
        """Whether one waits until it may go on: until a person lets it, its guard looks again, or it is back."""
        return self.reason in (EMERGENCY_STOP, DEADMAN, GUARD_SILENT, RESET_UNANSWERED, ROBOT_AWAY)


def nearest(name: str, valid: Iterable[str], unsuggested: Container[str] = ()) -> str:
    """Return the tail of an error message: the valid choices and, where one is close, the likely meaning.

    Those that are ``unsuggested`` are listed alone.

    >>> nearest("pick_cub", ["reach", "pick_cube"])
    "did you mean 'pick_cube'? Valid: pick_cube, reach"
    """
    choices = sorted(valid)
    suggested = [choice for choice in choices if choice not in unsuggested]
    close = difflib.get_close_matches(name, suggested, n=1, cutoff=0.5)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return f"{hint}Valid: {', '.join(choices)}"
