"""State of one source of a robot's observations, for checks of the robot."""

from typing import NamedTuple


class SourceState(NamedTuple):
    """State of a topic, a camera or the servos of a robot.

    Attributes:
        origin: topic, device or port.
        measured_ns: monotonic time at which its newest message was measured [ns]; None before the first.
        max_age: largest age at which a message may be acted on [s]; None: a message is valid until the next one.
    """

    origin: str
    measured_ns: int | None
    max_age: float | None
