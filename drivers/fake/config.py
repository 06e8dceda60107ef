"""Configuration of the fake arm."""

from dataclasses import dataclass, field

from robo_rl.core import require

from ..watchdog import WatchdogConfig


@dataclass(frozen=True)
class FakeArmConfig:
    """An arm of independent joints that is to reach a random posture. Actions are joint velocities.

    Attributes:
        joints: how many.
        velocity: of a full action [rad/s].
        acceleration: largest, also in braking [rad/s^2].
        limit: joints stay within plus and minus this [rad].
        control_rate: actions a second [Hz].
        drive_rate: of the process that drives the joints [Hz].
        max_episode_steps: time limit, a truncation.
        tolerance: largest distance of every joint from its target that is success [rad].
        silence: time without an answer of the driver after which the episode is given up [s].
        watchdog: what the driver does when nobody tells it anything.
    """

    joints: int = 3
    velocity: float = 2.0
    acceleration: float = 12.0
    limit: float = 2.5
    control_rate: float = 20.0
    drive_rate: float = 500.0
    max_episode_steps: int = 60
    tolerance: float = 0.1
    silence: float = 0.4
    watchdog: WatchdogConfig = field(default_factory=WatchdogConfig)

    def __post_init__(self) -> None:
        require(1 <= self.joints <= 16, "task.joints", "in [1, 16]", self.joints)
        for key in ("velocity", "acceleration", "limit", "control_rate", "drive_rate", "tolerance", "silence"):
            require(getattr(self, key) > 0, f"task.{key}", "above 0", getattr(self, key))
        require(self.max_episode_steps >= 1, "task.max_episode_steps", "1 or more", self.max_episode_steps)
