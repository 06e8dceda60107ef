"""Configuration of teleoperation."""

from dataclasses import dataclass

from robo_rl.core import require


@dataclass(frozen=True)
class TeleopConfig:
    """How keys become motion.

    A terminal tells that a key went down and, while it is held, repeats it after a while; it never tells that it was
    let go. So each key acts for ``hold_seconds`` and then fades over ``decay_seconds``, which bridges the wait for the
    first repetition. A window knows when a key is let go and needs neither.

    Attributes:
        speed: action of a key that is held, as a fraction of the largest (0 to 1).
        hold_seconds: how long a key in a terminal acts in full [s].
        decay_seconds: how long it fades after that [s].
        latch_seconds: how long the person stays in control after the last key [s].
    """

    speed: float = 1.0
    hold_seconds: float = 0.15
    decay_seconds: float = 0.35
    latch_seconds: float = 0.5

    def __post_init__(self) -> None:
        require(0 < self.speed <= 1, "teleop.speed", "in (0, 1]", self.speed)
        for key in ("hold_seconds", "decay_seconds", "latch_seconds"):
            require(getattr(self, key) >= 0, f"teleop.{key}", "0 or more", getattr(self, key))
