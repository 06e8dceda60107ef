"""Configuration of the virtual robot."""

from dataclasses import dataclass, field

from robo_rl.core import Options, option, require

from ..watchdog import WatchdogConfig


@dataclass(frozen=True)
class VirtualRobotConfig(Options, section="virtual"):
    """A simulated arm that publishes and subscribes what a ros2_control robot with cameras does.

    Rates are in real time [Hz], as a driver sees them; only physics is faster with a ``real_time_factor`` above 1.

    Attributes:
        name: of the node.
        namespace: of its topics and services.
        implementation: of ROS 2: ``auto``, ``rclpy`` or ``dds``.
        real_time_factor: simulated seconds in a second.
        state_rate: of joint states, pose, velocity, wrench, objects and rewards.
        transform_rate: of the frames that move, on /tf.
        camera_rate: of each camera.
        compressed: publish CompressedImage (JPEG) rather than Image.
        camera_noise: standard deviation of the noise on pixels, of 255; real cameras never give the same picture twice.
            It is normal, rounded, and for each picture another part of what is drawn once for eight.
        watchdog: what the robot does when commands stop, in real time.
        seed: of the episodes' starts.
        real_time_priority: of the process, before all ordinary ones (SCHED_FIFO, 1 to 99), where the system permits it:
            beside a learner on the same machine it keeps its rates as a robot does. 0: it is one of them.
    """

    name: str = "virtual_robot"
    namespace: str = ""
    implementation: str = "auto"
    real_time_factor: float = option(1.0, above=0, high=100)
    state_rate: float = option(250.0, low=1, high=1000)
    transform_rate: float = 50.0
    camera_rate: float = option(30.0, above=0, high=120)
    compressed: bool = False
    camera_noise: float = option(1.0, low=0, high=50)
    watchdog: WatchdogConfig = field(default_factory=WatchdogConfig)
    seed: int = 0
    real_time_priority: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        implementations = ("auto", "rclpy", "dds")
        require(
            self.implementation in implementations,
            "virtual.implementation",
            f"one of {', '.join(implementations)}",
            self.implementation,
        )
        in_range = 0 < self.transform_rate <= self.state_rate
        require(in_range, "virtual.transform_rate", f"in (0, state_rate = {self.state_rate:g}]", self.transform_rate)
        priority = self.real_time_priority
        require(0 <= priority <= 99, "virtual.real_time_priority", "in [0, 99]", priority)
