"""Configuration of the fake arm."""

from dataclasses import dataclass, field

from robo_rl.core import MAX_RATE, MAX_SECONDS, MIN_RATE, Options, option

from ..watchdog import WatchdogConfig


@dataclass(frozen=True)
class FakeArmConfig(Options, section="task"):
    """Arm of independent joints that has to reach a random posture. Actions are joint velocities.

    Attributes:
        joints: number of joints.
        velocity: joint velocity of a full action [rad/s].
        acceleration: largest joint acceleration, also in braking [rad/s^2].
        limit: largest magnitude of a joint position [rad].
        control_rate: actions per second [Hz].
        drive_rate: rate of the process that drives the joints [Hz].
        max_episode_steps: number of steps after which an episode is truncated.
        tolerance: largest distance of any joint from its target that counts as success [rad].
        silence: time without an answer of the driver after which the episode is aborted [s].
        watchdog: behaviour of the driver without commands.
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
