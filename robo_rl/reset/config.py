"""Configuration of how episodes begin."""

from dataclasses import dataclass

from robo_rl.core import require


@dataclass(frozen=True)
class SeededConfig:
    """Each episode begins by a reset of the backend from a seed of its own: in simulation the robot is put there."""


@dataclass(frozen=True)
class RecoveryConfig:
    """Each episode after the first begins where the robot stands, after a recovery where the last one ended in failure.

    The robot is a vehicle: its actions have the elements ``steering`` (positive to the left) and ``throttle``, and its
    observations tell its speed, whether it is upright and where it is to go.

    Attributes:
        crash_terms: reward terms that are above 0 when a failure ended the episode.
        stuck_terms: the same when the robot did not come away from its place.
        speed: element of the observation: speed forwards [m/s].
        upright: element of the observation: cosine of the lean, 1 upright.
        goal_x: element of the observation: how far ahead the next checkpoint is, in the robot's frame [m].
        goal_y: the same to the left [m].
        attempts: to recover, before a person is called.
        seconds: how long an attempt drives [s].
        rest_seconds: how long the robot is given to come to rest, after a crash and after each attempt [s].
        throttle: with which it drives, backwards first, in (0, 1].
        min_distance: the robot is stuck still until an attempt comes so far [m].
        min_upright: an attempt that ends with ``upright`` below this has not helped.
    """

    crash_terms: tuple[str, ...] = ("crashed", "flipped")
    stuck_terms: tuple[str, ...] = ("stuck",)
    speed: str = "velocity_x"
    upright: str = "up_z"
    goal_x: str = "checkpoint1_x"
    goal_y: str = "checkpoint1_y"
    attempts: int = 10
    seconds: float = 1.2
    rest_seconds: float = 0.3
    throttle: float = 0.3
    min_distance: float = 0.25
    min_upright: float = 0.7

    def __post_init__(self) -> None:
        require(self.attempts >= 1, "reset.attempts", "1 or more", self.attempts)
        require(self.seconds > 0, "reset.seconds", "above 0", self.seconds)
        for key in ("rest_seconds", "min_distance"):
            require(getattr(self, key) >= 0, f"reset.{key}", "0 or more", getattr(self, key))
        require(0 < self.throttle <= 1, "reset.throttle", "in (0, 1]", self.throttle)
        require(-1 <= self.min_upright <= 1, "reset.min_upright", "in [-1, 1]", self.min_upright)
