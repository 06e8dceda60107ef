"""Configuration of an arm of servos on a serial bus."""

from dataclasses import dataclass, field

from robo_rl.core import MAX_SECONDS, Options, option, require

from ..cameras import CameraConfig

VIRTUAL = "virtual"
"""Value of ``robot.port`` for servos in the simulation of the task."""


@dataclass  # not frozen: OmegaConf makes frozen entries of a dictionary read-only before a file has filled them in
class ServoConfig(Options, section="robot.servos.*"):
    """Servo of one joint.

    Attributes:
        id: id on the bus.
        reversed: whether the servo counts down while the joint's position rises.
        gear: turns of the servo for one turn of the joint.
        torque: largest torque, as a share of the servo's own.
    """

    id: int = option(1, low=0, high=253)
    reversed: bool = False
    gear: float = option(1.0, above=0, high=1000)
    torque: float = option(1.0, above=0, high=1)


@dataclass(frozen=True)
class ServoArmConfig(Options, section="robot"):
    """Arm of Feetech STS3215 servos on a serial port. The task defines observations and the meaning of actions.

    Attributes:
        name: name of the robot, for messages and its emergency stop.
        port: serial port, such as /dev/ttyACM0; ``virtual``: servos in the simulation of the task, on a
            pseudo-terminal.
        baud_rate: bits per second.
        servos: servo of each joint of the task's arm, and of the gripper's joint, by name.
        calibration: calibration file of LeRobot (JSON) that the servos have to agree with; null: the homing offsets and
            ranges that are stored in the servos apply unchecked.
        cameras: cameras of this machine for ``images/<camera>``.
        rate: number of times per second that all servos are read and commanded [Hz].
        answer_timeout: longest wait for the servos' answers to one instruction [s].
        retries: number of repetitions of an unanswered instruction.
        max_age: largest age of the newest reading that an action is based on [s].
        proportional_gain: gain of the servos' position control; LeRobot uses 16, a new servo has 32.
        temperature: temperature of a servo at which the arm is stopped [degrees Celsius].
        homing_speed: speed of the fastest joint on the way home before an episode [rad/s].
        homing_tolerance: largest distance of a joint from home at which an episode begins [rad].
        pause: time before each episode in which a person may arrange the scene [s].
        relax_after: time after the end of an episode at which the servos are switched off, so that they cool [s]; the
            arm then sinks. Null: they hold until the driver is closed.
        relax_on_close: whether the servos are switched off when the driver is closed.
        terminate_on_success: whether success ends the episode.
        real_time_factor: speed of time for virtual servos; 1 for an arm.
        start_timeout: longest wait for the servos at the start [s].
        overruns: number of control periods in a row that begin too late after which the arm is stopped.
        real_time_priority: real-time priority of the process (SCHED_FIFO, 1 to 99), if the system permits it; 0: an
            ordinary process.
    """

    name: str = "servo_arm"
    port: str = "/dev/ttyACM0"
    baud_rate: int = option(1_000_000, low=9600, high=4_000_000)
    servos: dict[str, ServoConfig] = field(default_factory=dict)
    calibration: str | None = None
    cameras: dict[str, CameraConfig] = field(default_factory=dict)
    rate: float = option(50.0, low=5, high=500)
    answer_timeout: float = option(0.02, above=0, high=1)
    retries: int = option(2, low=0, high=10)
    max_age: float = option(0.2, above=0, high=MAX_SECONDS)
    proportional_gain: int = option(16, low=1, high=254)
    temperature: float = option(60.0, above=0, high=100)
    homing_speed: float = option(0.7, above=0, high=10)
    homing_tolerance: float = option(0.1, above=0, high=1)
    pause: float = option(0.0, low=0, high=MAX_SECONDS)
    relax_after: float | None = option(60.0, above=0, high=MAX_SECONDS)
    relax_on_close: bool = True
    terminate_on_success: bool = True
    real_time_factor: float = option(1.0, low=0.01, high=100)
    start_timeout: float = option(5.0, above=0, high=MAX_SECONDS)
    overruns: int = option(20, low=1)
    real_time_priority: int = option(20, low=0, high=99)

    def __post_init__(self) -> None:
        super().__post_init__()
        require(bool(self.port), "robot.port", "the path of a serial port, or virtual", self.port)
        ids = [servo.id for servo in self.servos.values()]
        require(bool(ids) and len(set(ids)) == len(ids), "robot.servos", "servos with different ids", sorted(ids))
        is_valid = self.port == VIRTUAL or self.real_time_factor == 1
        require(is_valid, "robot.real_time_factor", "1 for an arm that is not virtual", self.real_time_factor)
        is_valid = self.port != VIRTUAL or not self.cameras
        require(is_valid, "robot.cameras", "none where port=virtual", sorted(self.cameras))
