"""Configuration of the simulated car, its track and the task. Lengths in m, angles in rad, times in s, masses in kg."""

import math
from dataclasses import dataclass, field

from robo_rl.core import MAX_RATE, MIN_RATE, ConfigError, Options, option, require

from ..config import ObservationConfig


@dataclass(frozen=True)
class CarConfig(Options, section="car"):
    """Car of a tenth of the usual size, with four driven wheels on springs; the front wheels are steered.

    Attributes:
        wheelbase: distance between the axles [m].
        track_width: distance between the wheels of an axle [m].
        wheel_radius: radius of the wheels [m].
        mass: mass of the body, without wheels [kg].
        wheel_mass: mass of each wheel [kg].
        centre_of_mass_height: height of the body's centre of mass above the ground [m].
        max_steering: largest angle of the (virtual) middle front wheel [rad].
        steering_rate: largest rate of the steering servo [rad/s].
        stall_force: force of all motors together at full throttle and at rest [N].
        top_speed: speed at which full throttle gives no more force [m/s].
        friction: coefficient of the tyres on the floor.
        suspension_frequency: frequency of the body on its springs [Hz].
        suspension_damping: damping of the suspension, as a share of critical damping.
    """

    wheelbase: float = 0.32
    track_width: float = 0.26
    wheel_radius: float = 0.055
    mass: float = 3.0
    wheel_mass: float = 0.15
    centre_of_mass_height: float = 0.06
    max_steering: float = option(0.42, below=math.pi / 4)
    steering_rate: float = 4.0
    stall_force: float = 22.0
    top_speed: float = 5.0
    friction: float = 0.85
    suspension_frequency: float = option(5.0, low=MIN_RATE, high=MAX_RATE)
    suspension_damping: float = 0.6

    def __post_init__(self) -> None:
        super().__post_init__()
        for key in self.__dataclass_fields__:
            require(getattr(self, key) > 0, f"car.{key}", "above 0", getattr(self, key))


@dataclass(frozen=True)
class TrackConfig(Options, section="track"):
    """Closed track between walls, generated from its seed.

    Attributes:
        seed: seed of its shape and of the positions of its rough patches.
        length: length of the centre line [m].
        width: distance between the walls [m].
        waviness: deviation of the shape from a circle, 0 to 0.5.
        min_radius: smallest radius of the centre line [m].
        wall_height: height of the walls [m].
        rough_patches: number of rough patches.
        rough_friction: factor on the tyres' friction in rough patches.
        rough_height: height of the ribs in rough patches [m].
    """

    seed: int = 0
    length: float = option(30.0, above=0, high=10_000)
    width: float = option(1.8, above=0)
    waviness: float = option(0.45, low=0, high=0.5)
    min_radius: float = option(1.0, above=0)
    wall_height: float = option(0.2, above=0)
    rough_patches: int = option(3, low=0, high=1000)
    rough_friction: float = option(0.65, above=0)
    rough_height: float = option(0.005, low=0, below=0.02)

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.width < 2 * self.min_radius, "track.width", "below 2 * track.min_radius", self.width)


@dataclass(frozen=True)
class DriverConfig:
    """Scripted driver, whose first lap determines the checkpoints.

    Attributes:
        speed: largest speed [m/s].
        lateral_acceleration: largest lateral acceleration in bends [m/s^2].
        look_ahead: distance of the point that it steers towards [m].
    """

    speed: float = 1.5
    lateral_acceleration: float = 6.0
    look_ahead: float = 0.8

    def __post_init__(self) -> None:
        for key in self.__dataclass_fields__:
            require(getattr(self, key) > 0, f"driver.{key}", "above 0", getattr(self, key))


@dataclass(frozen=True)
class DetectorConfig(Options, section="detectors"):
    """Events that end an episode besides laps and the time limit (as in FastRLAP, Stachowicz et al. 2023).

    Attributes:
        stuck_positions: number of positions, one per control step, that lie within ``stuck_distance`` of the newest one
            if the car is stuck.
        stuck_distance: largest distance of these positions from the newest one [m].
        flip_acceleration: the car has flipped if the vertical acceleration that it feels, averaged over a control
            period, is below this [m/s^2]; at rest on its wheels it feels 9.81.
        crash_acceleration: the car has crashed if the horizontal acceleration that it feels exceeds this at any time
            [m/s^2]; tyres cannot give more than their friction times 9.81.
    """

    stuck_positions: int = option(30, low=2, high=100_000)
    stuck_distance: float = option(0.3, above=0)
    flip_acceleration: float = -4.0
    crash_acceleration: float = option(20.0, above=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        require(-9.81 < self.flip_acceleration < 9.81, "detectors.flip_acceleration", "in (-9.81, 9.81)",
                self.flip_acceleration)  # fmt: skip


@dataclass(frozen=True)
class DriveConfig(Options):
    """Configuration of ``drive``.

    Attributes:
        name: name of the task.
        control_rate: actions per second [Hz]; must divide ``physics_rate``.
        physics_rate: physics steps per second [Hz].
        max_episode_steps: number of steps after which an episode is truncated.
        laps: number of laps since the beginning of the episode that is success.
        terminate_on_success: whether success terminates the episode as a goal that was reached.
        machine: file of a reward machine, whose stages become the task.
        truncate_on_success: whether success truncates the episode: the drive continues in the next one.
        autonomous: whether ``reset()`` without a seed begins an episode where the car stands, as on a real car. With a
            seed the car is always put at the start line.
        checkpoint_spacing: distance between checkpoints on the demonstrated lap [m].
        checkpoint_reach: distance along the lap from which a checkpoint counts as reached [m].
        checkpoints_ahead: number of next checkpoints in the observation ``object``.
    """

    name: str = "drive"
    control_rate: float = option(20.0, low=MIN_RATE, high=MAX_RATE)
    physics_rate: float = option(400.0, low=200, high=1e5)
    max_episode_steps: int = option(600, low=1)
    laps: int = option(1, low=1)
    terminate_on_success: bool = True
    machine: str | None = None
    truncate_on_success: bool = False
    autonomous: bool = False
    checkpoint_spacing: float = option(1.0, low=0.01)
    checkpoint_reach: float = option(1.0, above=0, high=1000)
    checkpoints_ahead: int = option(6, low=1, high=100)
    car: CarConfig = field(default_factory=CarConfig)
    track: TrackConfig = field(default_factory=TrackConfig)
    driver: DriverConfig = field(default_factory=DriverConfig)
    detectors: DetectorConfig = field(default_factory=DetectorConfig)
    observation: ObservationConfig = field(default_factory=ObservationConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        ticks = self.physics_rate / self.control_rate
        if ticks < 1 or abs(ticks - round(ticks)) > 1e-9:
            raise ConfigError(
                f"physics_rate ({self.physics_rate} Hz) must be a whole multiple of control_rate "
                f"({self.control_rate} Hz), got {ticks:g} steps of physics a control step"
            )
        both = self.terminate_on_success and self.truncate_on_success
        require(not both, "truncate_on_success", "false if terminate_on_success is true", self.truncate_on_success)
        require(self.track.width > 3 * self.car.track_width, "track.width", "above 3 * car.track_width",
                self.track.width)  # fmt: skip

    @property
    def ticks(self) -> int:
        """Steps of physics in a control period."""
        return round(self.physics_rate / self.control_rate)
