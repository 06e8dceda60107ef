"""Configuration of the fake arm."""

from dataclasses import dataclass, field

from robo_rl.core import MAX_RATE, MAX_SECONDS, MIN_RATE, Options, option

from ..watchdog import WatchdogConfig


@dataclass(frozen=True)
class FakeArmConfig(Options, section="task"):
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

    joints: int = option(3, low=1, high=16)
    velocity: float = option(2.0, above=0)
    acceleration: float = option(12.0, above=0)
    limit: float = option(2.5, above=0)
    control_rate: float = option(20.0, low=MIN_RATE, high=MAX_RATE)
    drive_rate: float = option(500.0, low=MIN_RATE, high=MAX_RATE)
    max_episode_steps: int = option(60, low=1)
    tolerance: float = option(0.1, above=0)
    silence: float = option(0.4, above=0, high=MAX_SECONDS)
    watchdog: WatchdogConfig = field(default_factory=WatchdogConfig)
