"""Configuration of the virtual robot."""

from dataclasses import dataclass, field

from robo_rl.core import Options, option, require

from ..watchdog import WatchdogConfig


@dataclass(frozen=True)
class VirtualRobotConfig(Options, section="virtual"):
    """Simulated arm with the topics of a ros2_control robot with cameras.

    Rates are in real time [Hz], as seen by a driver; only physics is faster with a ``real_time_factor`` above 1.

    Attributes:
        name: name of the node.
        namespace: namespace of its topics and services.
        implementation: implementation of ROS 2: ``auto``, ``rclpy`` or ``dds``.
        real_time_factor: simulated seconds per second.
        state_rate: rate of joint states, pose, velocity, wrench, objects and rewards.
        transform_rate: rate of the moving frames, on /tf.
        camera_rate: rate of each camera.
        compressed: whether to publish CompressedImage (JPEG) instead of Image.
        camera_noise: standard deviation of the noise on pixel values from 0 to 255, as real cameras never give the same
            image twice. The noise is normal and rounded. It is drawn once, for eight images; each image gets a random
            part of it.
        watchdog: behaviour of the robot when commands stop, in real time.
        seed: seed of the start states of episodes.
        real_time_priority: real-time priority of the process (SCHED_FIFO, 1 to 99), if the system permits it, so that
            it keeps its rates beside a learner on the same machine, as a robot does. 0: an ordinary process.
    """

    name: str = "virtual_robot"
    namespace: str = ""
    implementation: str = option("auto", choices=("auto", "rclpy", "dds"))
    real_time_factor: float = option(1.0, above=0, high=100)
    state_rate: float = option(250.0, low=1, high=1000)
    transform_rate: float = 50.0
    camera_rate: float = option(30.0, above=0, high=120)
    compressed: bool = False
    camera_noise: float = option(1.0, low=0, high=50)
    watchdog: WatchdogConfig = field(default_factory=WatchdogConfig)
    seed: int = 0
    real_time_priority: int = option(0, low=0, high=99)

    def __post_init__(self) -> None:
        super().__post_init__()
        in_range = 0 < self.transform_rate <= self.state_rate
        require(in_range, "virtual.transform_rate", f"in (0, state_rate = {self.state_rate:g}]", self.transform_rate)
