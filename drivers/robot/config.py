"""Configuration of a robot over ROS 2: topics and cameras of the observation, and topics of the action."""

import math
from dataclasses import dataclass, field

from robo_rl.core import MAX_RATE, MAX_SECONDS, MIN_RATE, Options, nearest, option, require

from ..cameras import CameraConfig

IMAGES = "images/"
NAMED = ("joints", "gripper", "object", "rewards")
"""Kinds of sources whose messages contain a name for each number."""
TRANSFORMS = "tf2_msgs/msg/TFMessage"
GIVES = {
    "joints": ("sensor_msgs/msg/JointState",),
    "end_effector_pose": ("geometry_msgs/msg/PoseStamped", TRANSFORMS),
    "end_effector_velocity": ("geometry_msgs/msg/TwistStamped",),
    "wrist_wrench": ("geometry_msgs/msg/WrenchStamped",),
    "gripper": ("sensor_msgs/msg/JointState",),
    "object": ("sensor_msgs/msg/JointState",),
    "rewards": ("sensor_msgs/msg/JointState",),
    "ready": ("std_msgs/msg/Bool",),
    "odometry": ("nav_msgs/msg/Odometry",),
    "imu": ("sensor_msgs/msg/Imu",),
    "orientation": ("sensor_msgs/msg/Imu",),
    "drive": ("ackermann_msgs/msg/AckermannDriveStamped",),
    "scan": ("sensor_msgs/msg/LaserScan",),
    IMAGES: ("sensor_msgs/msg/Image", "sensor_msgs/msg/CompressedImage"),
}
"""Message types that may carry each kind of source."""

COMMANDS = {
    "pose": "geometry_msgs/msg/PoseStamped",
    "twist": "geometry_msgs/msg/TwistStamped",
    "joint_positions": "std_msgs/msg/Float64MultiArray",
    "joint_velocities": "std_msgs/msg/Float64MultiArray",
    "joint_efforts": "std_msgs/msg/Float64MultiArray",
    "joint_trajectory": "trajectory_msgs/msg/JointTrajectory",
    "joint_trajectory_action": "control_msgs/action/FollowJointTrajectory",
    "base_twist": "geometry_msgs/msg/Twist",
    "base_twist_stamped": "geometry_msgs/msg/TwistStamped",
    "ackermann": "ackermann_msgs/msg/AckermannDriveStamped",
}
"""Kinds of commands and their message types, or action."""

GRIPPER_COMMANDS = ("none", "positions", "action")


@dataclass  # not frozen: OmegaConf makes frozen entries of a dictionary read-only before a file has filled them in
class SourceConfig(Options, section="robot.sources.*"):
    """Topic, or camera of this machine, that provides a part of the observation.

    Attributes:
        topic: name of the topic; without a leading slash it is in ``robot.namespace``.
        type: message type.
        gives: data that it provides: ``joints``, ``end_effector_pose``, ``end_effector_velocity``, ``wrist_wrench``,
            ``gripper``, ``object``, ``rewards``, ``ready`` or ``images/<camera>``; for a mobile base ``odometry``,
            ``imu``, ``orientation``, ``drive`` or ``scan``. ``object`` and ``rewards`` are named numbers: ``name`` and
            ``position`` of a JointState.
        max_age: largest age of data that an action is based on, by monotonic time since its measurement [s]. It holds
            for this source alone: safety filters have no other limit unless ``safety.observations.max_age`` is set.
        delay: known time between measurement and arrival [s].
        reliability: ``reliable``, ``best_effort``, or ``auto``: best effort, but reliable for images whose publishers
            all offer it.
        latched: whether the publisher keeps its last message for later subscribers (transient-local) and repeats
            nothing, so that the message never grows old.
        names: names of joints in the message, in the order of the task's joints (of the fingers for ``gripper``); none:
            the task's names. For ``rewards``, the terms of the task that the topic provides, while others are 0; none:
            all.
        velocity_window: for ``joints`` whose velocities the robot does not measure: number of seconds over which they
            are computed from positions. They are late by half of that, or by one period of the topic if that is longer,
            and velocities in messages are ignored. 0: the robot measures them.
        frame: for transforms (TFMessage), the frame whose pose is provided, by way of all transforms on ``topic`` and
            on the same with ``_static``. The pose is as old as the oldest moving transform on the way.
        parent: frame in which this pose is given.
        closed: position of a closed finger, for ``gripper`` [m or rad].
        open: position of an open finger.
        camera: for ``images/<camera>``, instead of ``topic`` and ``type``: a camera that this machine reads itself.
    """

    topic: str = ""
    type: str = ""
    gives: str = ""
    max_age: float = option(0.1, above=0, high=MAX_SECONDS)
    delay: float = option(0.0, low=0, high=MAX_SECONDS)
    reliability: str = "auto"
    latched: bool = False
    names: tuple[str, ...] = ()
    velocity_window: float = option(0.0, low=0, high=1)
    frame: str = ""
    parent: str = ""
    closed: float = 0.0
    open: float = 0.04
    camera: CameraConfig = field(default_factory=CameraConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        kind = IMAGES if self.gives.startswith(IMAGES) else self.gives
        is_known = kind in GIVES and self.gives != IMAGES
        require(is_known, "robot.sources.*.gives", nearest(self.gives, [*GIVES, "images/<camera>"]), self.gives)
        if self.camera.device:
            require(kind == IMAGES, "robot.sources.*.gives", "images/<camera> where there is a camera", self.gives)
            for key in ("topic", "type"):
                value = getattr(self, key)
                require(not value, f"robot.sources.*.{key}", "empty where there is a camera", value)
            require(not self.latched, "robot.sources.*.latched", "false where there is a camera", self.latched)
        else:
            require(bool(self.topic), "robot.sources.*.topic", "the name of a topic, or a camera.device", self.topic)
            valid = GIVES[kind]
            require(self.type in valid, f"robot.sources.*.type of {self.gives}", " or ".join(valid), self.type)
        allowed = ("auto", "reliable", "best_effort")
        require(self.reliability in allowed, "robot.sources.*.reliability", " or ".join(allowed), self.reliability)
        is_compatible = not self.latched or self.reliability != "best_effort"
        require(is_compatible, "robot.sources.*.reliability", "auto or reliable where latched", self.reliability)
        is_allowed = self.gives == "joints" or not self.velocity_window
        require(
            is_allowed, "robot.sources.*.velocity_window", "0 where the source gives no joints", self.velocity_window
        )
        is_valid = 0 < abs(self.open - self.closed) < math.inf
        require(is_valid, "robot.sources.*.open", f"a number unlike closed={self.closed}", self.open)
        self.refuse_unused(("closed", "open"), self.gives == "gripper", "the source gives gripper")
        self.refuse_unused(("names",), self.gives in NAMED, f"it gives {' or '.join(NAMED)}")
        is_distinct = len(set(self.names)) == len(self.names)
        require(is_distinct, "robot.sources.*.names", "different names", list(self.names))
        self.refuse_unused(("camera",), bool(self.camera.device), "camera.device is given")
        for key in ("frame", "parent"):
            is_set, is_required = bool(getattr(self, key)), self.type == TRANSFORMS
            expected = "the name of a frame" if is_required else f"given for {TRANSFORMS} alone"
            require(is_set == is_required, f"robot.sources.*.{key}", expected, getattr(self, key))

    @property
    def place(self) -> str:
        """Camera device or topic, for error messages."""
        return self.camera.device or self.topic


@dataclass(frozen=True)
class CommandConfig(Options, section="robot.command"):
    """Commands that move the arm or the mobile base.

    Attributes:
        kind: type of the commands: ``pose``: equilibrium poses of a Cartesian impedance controller; ``twist``:
            velocities of the end effector, for MoveIt Servo; ``joint_positions``, ``joint_velocities`` or
            ``joint_efforts``: for ros2_control's forward_command_controller; ``joint_trajectory`` or
            ``joint_trajectory_action``: for its joint_trajectory_controller, one point per command. For a mobile base
            ``base_twist``, ``base_twist_stamped`` or ``ackermann``.
        topic: name of the topic.
        frame: ``frame_id`` of poses and twists: the arm's base, or the mobile base.
        rate: rate at which a command is repeated within a control period [Hz]. Repetitions end with the policy, so that
            the robot's own reaction to silence takes effect.
        joints: names of joints in trajectories; none: the task's names. Other kinds of command name no joints: their
            numbers are in the order of the task's joints.
        timeout: time after the last command at which the driver sends zeros for velocities, efforts and twists [s];
            otherwise the robot would go on with the last one while a policy or a safety filter hangs.
        stiffness: stiffness for ``joint_efforts``, one value or one per joint [Nm/rad or N/m].
        damping: damping for ``joint_efforts``, one value or one per joint [Nms/rad or Ns/m].
        effort: largest effort for ``joint_efforts``, one value or one per joint [Nm or N].
        speed: speed of a mobile base at full throttle [m/s].
        turn: motion of a mobile base at full steering: rotation rate of a twist [rad/s], or steering angle [rad].
    """

    kind: str = "pose"
    topic: str = ""
    frame: str = "base"
    rate: float = option(50.0, low=MIN_RATE, high=MAX_RATE)
    joints: tuple[str, ...] = ()
    timeout: float = 0.1
    stiffness: tuple[float, ...] = ()
    damping: tuple[float, ...] = ()
    effort: tuple[float, ...] = ()
    speed: float = option(1.0, above=0)
    turn: float = option(1.0, above=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.kind in COMMANDS, "robot.command.kind", nearest(self.kind, COMMANDS), self.kind)
        require(bool(self.topic), "robot.command.topic", "the name of a topic", self.topic)
        longer = 1 / self.rate < self.timeout <= MAX_SECONDS
        allowed = f"above 1 / rate = {1 / self.rate:g}, at most {MAX_SECONDS:g}"
        require(longer, "robot.command.timeout", allowed, self.timeout)
        for key in ("stiffness", "damping", "effort"):
            values = getattr(self, key)
            expected = "given where kind=joint_efforts, and nowhere else"
            require(bool(values) == (self.kind == "joint_efforts"), f"robot.command.{key}", expected, values)
            require(min(values, default=0) >= 0, f"robot.command.{key}", "0 or more", values)
        has_names = self.kind.startswith("joint_trajectory")
        self.refuse_unused(("joints",), has_names, "kind is joint_trajectory or joint_trajectory_action")
        is_distinct = len(set(self.joints)) == len(self.joints)
        require(is_distinct, "robot.command.joints", "different names", list(self.joints))


@dataclass(frozen=True)
class GripperConfig(Options, section="robot.gripper"):
    """Commands that move the gripper, if actions contain it.

    Attributes:
        kind: type of the commands: ``none``; ``positions``: Float64MultiArray of a forward_command_controller;
            ``action``: GripperCommand.
        name: name of the topic or action.
        closed: position of the closed gripper [m or rad].
        open: position of the open gripper.
        fingers: number of values in a ``positions`` message.
        effort: ``max_effort`` of goals [N].
        resolution: smallest change of the position that is sent.
        timeout: longest duration of a goal; a gripper that does not end it counts as faulty [s].
    """

    kind: str = "none"
    name: str = ""
    closed: float = 0.0
    open: float = 0.04
    fingers: int = option(1, low=1)
    effort: float = option(30.0, low=0)
    resolution: float = option(0.002, low=0)
    timeout: float = option(10.0, above=0, high=MAX_SECONDS)

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.kind in GRIPPER_COMMANDS, "robot.gripper.kind", nearest(self.kind, GRIPPER_COMMANDS), self.kind)
        require(self.kind == "none" or bool(self.name), "robot.gripper.name", "a topic or action", self.name)
        self.refuse_unused(("effort", "timeout"), self.kind == "action", "kind=action")
        is_valid = 0 < abs(self.open - self.closed) < math.inf
        require(is_valid, "robot.gripper.open", f"a number unlike closed={self.closed}", self.open)


@dataclass(frozen=True)
class ControllersConfig(Options, section="robot.controllers"):
    """Controllers of ros2_control that the robot needs while it is driven.

    Attributes:
        active: names of the controllers, including broadcasters. They are activated at the start and after each reset,
            while controllers that command the same joints are deactivated. At the end, the original state is restored.
            None: no controller manager is used.
        manager: name of the controller manager's node.
        timeout: longest wait for a switch [s].
    """

    active: tuple[str, ...] = ()
    manager: str = "controller_manager"
    timeout: float = option(5.0, above=0, high=MAX_SECONDS)

    def __post_init__(self) -> None:
        super().__post_init__()
        unique = len(set(self.active)) == len(self.active) and all(self.active)
        require(unique, "robot.controllers.active", "names, each once", self.active)
        require(bool(self.manager), "robot.controllers.manager", "the name of a node", self.manager)
        self.refuse_unused(("manager", "timeout"), bool(self.active), "robot.controllers.active is given")


@dataclass(frozen=True)
class ResetConfig(Options, section="robot.reset"):
    """Service that brings arm and scene to the start of an episode.

    Attributes:
        service: name of the service, of type std_srvs/srv/Trigger; its answer reports whether it succeeded.
        timeout: longest wait for the answer [s].
        attempts: number of calls before the episode is aborted.
        pause: time between two attempts [s].
    """

    service: str = "reset"
    timeout: float = option(30.0, above=0, high=MAX_SECONDS)
    attempts: int = option(3, low=1)
    pause: float = option(1.0, low=0, high=MAX_SECONDS)

    def __post_init__(self) -> None:
        super().__post_init__()
        require(bool(self.service), "robot.reset.service", "the name of a std_srvs/srv/Trigger service", self.service)


@dataclass(frozen=True)
class TareConfig(Options, section="robot.tare"):
    """Bias of the wrist's sensor, measured and subtracted when an episode begins, with the arm at rest and free.

    This is off by default: what the arm touches steadily when an episode begins cannot be told from a bias, and limits
    on forces would count from it. A load that changes by more than a tenth of the largest bias meanwhile is refused.

    Attributes:
        seconds: time over which the bias is averaged [s]; 0: nothing is subtracted.
        force: largest force that is subtracted [N]; a larger one is no bias.
        torque: largest torque that is subtracted [Nm].
    """

    seconds: float = option(0.0, low=0, high=10)
    force: float = option(50.0, above=0)
    torque: float = option(5.0, above=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.refuse_unused(("force", "torque"), self.seconds > 0, "robot.tare.seconds is above 0")


@dataclass(frozen=True)
class RobotConfig(Options, section="robot"):
    """Topics and services of a robot over ROS 2. The task defines observations and the meaning of actions.

    Attributes:
        name: name of the robot, for messages and the ROS 2 node.
        namespace: namespace of its topics and services.
        implementation: implementation of ROS 2: ``auto``, ``rclpy`` or ``dds``.
        discovery_range: ``ROS_AUTOMATIC_DISCOVERY_RANGE`` if the environment has none. A robot with the range
            ``LOCALHOST``, such as the virtual one, is not found by nodes with another range. Empty: the default of ROS
            2, ``SUBNET``.
        sources: topics and cameras that provide the observation.
        align_to: name of a source. Each other source provides the message measured nearest to the newest one of this
            source, at most the other source's ``max_age`` apart. Null: the newest of each. This helps if a camera is
            slow and the arm fast.
        unmeasured: prefixes of names in ``state`` that this robot does not measure: these elements are 0. A prefix
            whose elements are all measured or computed is refused.
        command: commands that move the arm.
        gripper: commands that move the gripper.
        tare: bias that is subtracted from force and torque at the wrist.
        controllers: controllers of ros2_control that have to be active while the robot is driven.
        reset: service that begins an episode.
        emergency_service: std_srvs/srv/Trigger that stops the robot itself, until it is re-armed; ``robo-rl guard``
            calls it. Empty: none.
        emergency_topic: std_msgs/msg/Bool that stops the robot itself (``true``), for robots whose services cannot be
            called (Fast DDS); ``robo-rl guard`` publishes on it as well. Empty: none.
        rearm_service: std_srvs/srv/Trigger that allows the robot to move again; ``robo-rl rearm`` calls it. Empty:
            none, a person releases the stop at the robot.
        terminate_on_success: whether success ends the episode.
        terminate_on: reward terms that terminate the episode when they are above 0.5: ``crashed``.
        truncate_on: reward terms that truncate the episode when they are above 0.5: ``stuck``.
        real_time_factor: speed of the robot's time: 1, or that of a virtual robot.
        start_timeout: longest wait for all topics and services at the start [s].
        silence: time for which a source may be silent after a reset, beyond its ``max_age``, before the episode is
            aborted [s].
        overruns: number of control periods in a row that begin too late after which the robot is stopped.
        real_time_priority: real-time priority of the process that drives the robot (SCHED_FIFO, 1 to 99), if the system
            permits it; 0: an ordinary process.
        pose_tolerance: largest distance between the measured end effector and that of the task's arm in the same
            posture [m]; beyond it, the robots or their tool frames differ.
    """

    name: str = "robot"
    namespace: str = ""
    implementation: str = "auto"
    discovery_range: str = ""
    sources: dict[str, SourceConfig] = field(default_factory=dict)
    align_to: str | None = None
    unmeasured: tuple[str, ...] = ()
    command: CommandConfig = field(default_factory=lambda: CommandConfig(topic="command"))
    gripper: GripperConfig = field(default_factory=GripperConfig)
    tare: TareConfig = field(default_factory=TareConfig)
    controllers: ControllersConfig = field(default_factory=ControllersConfig)
    reset: ResetConfig = field(default_factory=ResetConfig)
    emergency_service: str = ""
    emergency_topic: str = ""
    rearm_service: str = ""
    terminate_on_success: bool = True
    terminate_on: tuple[str, ...] = ()
    truncate_on: tuple[str, ...] = ()
    real_time_factor: float = option(1.0, low=0.01, high=100)
    start_timeout: float = option(20.0, above=0, high=MAX_SECONDS)
    silence: float = option(0.4, above=0, high=MAX_SECONDS)
    overruns: int = option(20, low=1)
    real_time_priority: int = option(20, low=0, high=99)
    pose_tolerance: float = option(0.05, above=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        implementations = ("auto", "rclpy", "dds")
        require(
            self.implementation in implementations,
            "robot.implementation",
            nearest(self.implementation, implementations),
            self.implementation,
        )
        kinds = [source.gives for source in self.sources.values()]
        require(len(set(kinds)) == len(kinds), "robot.sources", "sources that give different things", sorted(kinds))
        wrist = "wrist_wrench" in kinds or not self.tare.seconds
        require(wrist, "robot.tare.seconds", "0 where no source gives wrist_wrench", self.tare.seconds)
        stops = bool(self.emergency_service or self.emergency_topic)
        self.refuse_unused(("rearm_service",), stops, "emergency_service or emergency_topic is given")
        align = self.align_to
        require(align is None or align in self.sources, "robot.align_to", nearest(align or "", self.sources), align)
        grows_old = align is None or not self.sources[align].latched
        require(grows_old, "robot.align_to", "a source that is not latched", align)
