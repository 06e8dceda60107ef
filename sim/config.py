"""Configuration of simulated robots. Lengths in m, angles in rad, forces in N, torques in Nm, rates in Hz."""

import math
from dataclasses import dataclass, field

from robo_rl.core import MAX_RATE, MIN_RATE, ConfigError, Options, all_problems, nearest, option, require

AXES: dict[str, tuple[int, ...]] = {
    "x": (0,),
    "y": (1,),
    "z": (2,),
    "roll": (3,),
    "pitch": (4,),
    "yaw": (5,),
    "xyz": (0, 1, 2),
    "rotation": (3, 4, 5),
}
"""Names of end-effector axes in ``action_axes``, and their places in a twist (linear, angular)."""

ACTION_SPACES = ("end_effector_delta", "joint_delta", "joint_position")
ACTION_FRAMES = ("base", "end_effector")
MAX_DELAY = 10.0
"""Longest delay of an observation [s]."""


@dataclass(frozen=True)
class ArmDynamics(Options, section="arm.dynamics"):
    """Differences between an arm and its model, as ``robo-rl identify`` measures them. By default there are none.

    Tuples have one value for each joint; an empty tuple keeps the value of the model or controller.

    Attributes:
        delay: time from a command to its effect [s].
        stiffness: of the servos, instead of ``controller.joint_stiffness``; for joint actions alone [Nm/rad].
        damping: of the servos, instead of ``controller.joint_damping``; for joint actions alone [Nms/rad].
        friction: Coulomb friction of the joints [Nm].
        viscosity: viscous friction of the joints [Nms/rad].
        armature: inertia of the rotors at their joints [kg m^2].
        torque_offset: constant torques that the controller does not know [Nm].
        payload: mass at the end effector that the controller does not know [kg].
        gravity: share of the arm's own weight that the controller does not compensate. Unless it is 0, it replaces
            compensations (``gravcomp``) of the arm's model.
    """

    delay: float = option(0.0, low=0, high=1)
    stiffness: tuple[float, ...] = ()
    damping: tuple[float, ...] = ()
    friction: tuple[float, ...] = ()
    viscosity: tuple[float, ...] = ()
    armature: tuple[float, ...] = ()
    torque_offset: tuple[float, ...] = ()
    payload: float = option(0.0, low=0, high=1000)
    gravity: float = option(0.0, low=-1, high=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        for key in ("stiffness", "damping", "friction", "viscosity", "armature"):
            values = getattr(self, key)
            require(all(0 <= value < math.inf for value in values), f"arm.dynamics.{key}", "0 or more", values)
        offsets = self.torque_offset
        require(all(map(math.isfinite, offsets)), "arm.dynamics.torque_offset", "finite numbers", offsets)

    def by_joint(self) -> dict[str, tuple[float, ...]]:
        """Return the values that joints have, by name."""
        keys = ("stiffness", "damping", "friction", "viscosity", "armature", "torque_offset")
        return {key: tuple(getattr(self, key)) for key in keys}


@dataclass(frozen=True)
class ArmConfig(Options, section="arm"):
    """Arm and its gripper. The defaults are the built-in Franka Panda; any other MJCF arm can be used.

    The arm's base is assumed to be at the origin, on a table whose top is z = 0.

    Attributes:
        model: path of an MJCF file with the arm alone, without surroundings; ``so101``: the built-in SO-101; null: the
            built-in Panda.
        joints: names of the arm's joints (hinges or slides), from the base outwards.
        end_effector: name of the controlled site, between the finger tips, with its z axis pointing outwards.
        home: joint positions [rad or m] at which every episode begins.
        home_noise: half width of the uniform noise on ``home`` [rad or m].
        torque_limits: largest torque of each joint [Nm or N].
        velocity_limits: largest speed of each joint [rad/s or m/s], to which the controller limits every action.
        command_velocity: largest joint speed that an action may request, as a multiple of ``velocity_limits``: a
            compliant controller lags behind its actions.
        command_acceleration: largest change of that speed, of every joint [rad/s^2]. The simulated arm itself is
            limited by torques; for a real Panda, set ``safety.joints.acceleration``.
        command_jerk: largest change of that acceleration [rad/s^3].
        speed_limit: largest speed of the end effector that an action may request [m/s]; 1.7 for a Panda.
        rotation_speed_limit: largest rotation speed of the end effector that an action may request [rad/s].
        force_limit: contact force at the wrist at which the arm stops [N].
        torque_limit: contact torque at the wrist at which the arm stops [Nm].
        gripper_actuator: name of the actuator that opens and closes the gripper; null: no gripper.
        gripper_joints: names of the finger joints.
        gripper_open: control value of the open gripper. The open fingers are at the end of their range to which this
            value moves them: if it is above ``gripper_closed``, the upper end, for an actuator that moves them upwards.
        gripper_closed: control value of the closed gripper.
        home_opening: opening of the gripper when an episode begins, 0 closed to 1 open. It remains if actions do not
            move the gripper.
        wrist_sensor_site: site at which the wrist's force and torque are measured; null: at the end effector's body.
        cameras: files of calibrated cameras by name (``robo-rl calibrate``). A camera of this name has the file's
            projection, without distortion, and its pose, if the file has one; it is added if it does not exist.
        dynamics: how the arm differs from its model.
    """

    model: str | None = None
    joints: tuple[str, ...] = tuple(f"joint{i}" for i in range(1, 8))
    end_effector: str = "end_effector"
    home: tuple[float, ...] = (0.0, 0.08606, 0.0, -2.38745, 0.0, 2.47352, math.pi / 4)
    home_noise: float = option(0.02, low=0, below=math.inf)
    torque_limits: tuple[float, ...] = (87.0, 87.0, 87.0, 87.0, 12.0, 12.0, 12.0)
    velocity_limits: tuple[float, ...] = (2.175, 2.175, 2.175, 2.175, 2.61, 2.61, 2.61)
    command_velocity: float = 2.0
    command_acceleration: float = 60.0
    command_jerk: float = 1200.0
    speed_limit: float = 1.7
    rotation_speed_limit: float = 3.5
    force_limit: float = 250.0
    torque_limit: float = 25.0
    gripper_actuator: str | None = "gripper"
    gripper_joints: tuple[str, ...] = ("finger_joint1", "finger_joint2")
    gripper_open: float = 0.04
    gripper_closed: float = 0.0
    home_opening: float = option(1.0, low=0, high=1)
    wrist_sensor_site: str | None = "wrist"
    cameras: dict[str, str] = field(default_factory=dict)
    dynamics: ArmDynamics = field(default_factory=ArmDynamics)

    @all_problems()
    def __post_init__(self) -> None:
        super().__post_init__()
        require(len(self.joints) >= 1, "arm.joints", "at least one name", self.joints)
        for key in ("joints", "gripper_joints"):
            names = tuple(getattr(self, key))
            require(len(set(names)) == len(names), f"arm.{key}", "each name once", names)
        for key in ("home", "torque_limits", "velocity_limits"):
            values = getattr(self, key)
            require(len(values) == len(self.joints), f"arm.{key}", f"{len(self.joints)} values, one a joint", values)
        commands = ("command_velocity", "command_acceleration", "command_jerk")
        for key in (*commands, "speed_limit", "rotation_speed_limit", "force_limit", "torque_limit"):
            require(getattr(self, key) > 0, f"arm.{key}", "positive", getattr(self, key))
        for key in ("torque_limits", "velocity_limits"):
            require(all(value > 0 for value in getattr(self, key)), f"arm.{key}", "positive", getattr(self, key))
        require(all(map(math.isfinite, self.home)), "arm.home", "finite numbers", self.home)
        for key, values in self.dynamics.by_joint().items():
            complete = len(values) in (0, len(self.joints))
            require(complete, f"arm.dynamics.{key}", f"no value or {len(self.joints)}, one a joint", values)
        apart = 0 < abs(self.gripper_open - self.gripper_closed) < math.inf
        require(apart, "arm.gripper_open", f"a number unlike gripper_closed={self.gripper_closed}", self.gripper_open)


@dataclass(frozen=True)
class ControllerConfig(Options, section="controller"):
    """Meaning of actions, and their conversion to joint torques.

    Six-vectors are (x, y, z, roll, pitch, yaw), in the base frame.

    Attributes:
        action_space: ``end_effector_delta`` (relative to the measured pose), ``joint_delta`` (relative to the measured
            positions) or ``joint_position`` (-1 and 1 are the joint limits; a joint outside them makes the same motion
            as from the nearer one). A delta of zero stops and then holds.
        action_frame: frame of end-effector deltas: ``base`` or ``end_effector``.
        action_axes: axes that the action moves, joined by ``+``: any of x y z roll pitch yaw xyz rotation gripper;
            ``full`` is ``xyz+rotation+gripper``. The other axes stay as in the home pose. Joint actions always move
            every joint; for them only ``gripper`` counts.
        translation_scale: end-effector translation of a full action [m].
        rotation_scale: end-effector rotation of a full action [rad].
        joint_scale: joint motion of a full joint delta [rad].
        workspace_low: lower corner of the box in which the end effector's reference stays [m]. From outside it, an
            action moves the end effector back by no more than its own size along each axis.
        workspace_high: upper corner of that box [m].
        rate: torque commands (and physics steps) per second [Hz].
        stiffness: stiffness of the end effector [N/m, Nm/rad].
        damping: damping of the end effector [Ns/m, Nms/rad].
        error_clip: largest pose error that the stiffness acts on [m, rad]: stiffness times clip bounds the force that
            the arm exerts at rest (as in SERL, Luo et al. 2024).
        nullspace_stiffness: stiffness of the joints towards the home pose, in directions that the task leaves free
            [Nm/rad].
        nullspace_damping: damping of the joints in these directions [Nms/rad].
        joint_stiffness: stiffness for joint actions [Nm/rad].
        joint_damping: damping for joint actions [Nms/rad].
        joint_acceleration: acceleration of the reference for joint actions [rad/s^2].
        torque_rate_limit: largest change of a joint torque [Nm/s].
    """

    action_space: str = "end_effector_delta"
    action_frame: str = "base"
    action_axes: str = "full"
    translation_scale: float = option(0.05, above=0)
    rotation_scale: float = option(0.2, above=0)
    joint_scale: float = option(0.1, above=0)
    workspace_low: tuple[float, ...] = (0.25, -0.4, 0.01)
    workspace_high: tuple[float, ...] = (0.75, 0.4, 0.6)
    rate: float = option(500.0, low=500, high=1e5)
    stiffness: tuple[float, ...] = (2000.0, 2000.0, 2000.0, 150.0, 150.0, 150.0)
    damping: tuple[float, ...] = (110.0, 110.0, 110.0, 12.0, 12.0, 7.0)
    error_clip: tuple[float, ...] = (0.02, 0.02, 0.02, 0.1, 0.1, 0.1)
    nullspace_stiffness: float = option(10.0, low=0)
    nullspace_damping: float = option(6.0, low=0)
    joint_stiffness: float = option(400.0, low=0)
    joint_damping: float = option(40.0, low=0)
    joint_acceleration: float = option(7.5, above=0)
    torque_rate_limit: float = option(1000.0, above=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        for key, choices in (("action_space", ACTION_SPACES), ("action_frame", ACTION_FRAMES)):
            value = getattr(self, key)
            if value not in choices:
                raise ConfigError(f"controller.{key}: unknown value {value!r}; {nearest(value, choices)}")
        for name in self.axis_names():
            if name not in AXES and name != "gripper":
                raise ConfigError(
                    f"controller.action_axes: unknown axis {name!r}; {nearest(name, [*AXES, 'gripper', 'full'])}"
                )
        moved = self.moved_axes()
        require(len(moved) == len(set(moved)), "controller.action_axes", "distinct axes", self.action_axes)
        moves = bool(moved) or self.action_space != "end_effector_delta"
        require(moves, "controller.action_axes", "at least one axis of the end effector", self.action_axes)
        for key in ("stiffness", "damping", "error_clip"):
            values = getattr(self, key)
            valid = len(values) == 6 and all(value >= 0 for value in values)
            require(valid, f"controller.{key}", "6 values, 0 or more", values)
        low, high = self.workspace_low, self.workspace_high
        ordered = len(low) == len(high) == 3 and all(a < b for a, b in zip(low, high, strict=True))
        require(ordered, "controller.workspace_low", f"3 values below workspace_high {high}", low)

    def axis_names(self) -> tuple[str, ...]:
        """Return the parts of ``action_axes``."""
        return tuple(self.action_axes.replace("full", "xyz+rotation+gripper").split("+"))

    def moved_axes(self) -> tuple[int, ...]:
        """Return the places in a twist that end-effector actions move, in the order of the action."""
        return tuple(axis for name in self.axis_names() for axis in AXES.get(name, ()))

    @property
    def moves_gripper(self) -> bool:
        """Whether the last element of the action is the gripper's."""
        return "gripper" in self.axis_names()


@dataclass(frozen=True)
class ObservationConfig(Options, section="observation"):
    """Observations of the agent.

    Attributes:
        object: whether the observation has the key ``object``: the true state of the task's objects.
        relative: whether the end effector is observed relative to its pose at the beginning of the episode, without the
            joints (:class:`~robo_rl.core.RelativeBackend`). Actions in the same sense need
            ``controller.action_frame=end_effector``.
        history: number of earlier moments whose states and executed actions are observed, under the key ``history``
            (:class:`~robo_rl.core.HistoryBackend`).
        history_stride: control periods from one of these moments to the next.
        cameras: names of the cameras with keys ``images/<camera>``: ``front``, ``wrist``, or a camera of the task.
        width: width of these images [pixels].
        height: height of these images [pixels].
        frame_stack: number of newest frames of each camera in one image (height, width, 3 * frame_stack), oldest first;
            after a reset, the first frame is repeated.
        delay: time by which observations arrive late, by key [s], as ``{state: 0.02, images/front: 0.1}``
            (:class:`~robo_rl.core.DelayedBackend`); rounded up to whole control periods.
        delay_range: largest further delay, drawn for each of these keys and each episode [s].
        picture_width: width of images for people, from ``render()`` [pixels].
        picture_height: height of images for people [pixels].
    """

    object: bool = True
    relative: bool = False
    history: int = option(0, low=0, high=100)
    history_stride: int = option(1, low=1, high=100)
    cameras: tuple[str, ...] = ()
    width: int = option(128, low=8, high=4096)
    height: int = option(128, low=8, high=4096)
    frame_stack: int = option(1, low=1, high=16)
    delay: dict[str, float] = field(default_factory=dict)
    delay_range: float = option(0.0, low=0, high=MAX_DELAY)
    picture_width: int = option(640, low=8, high=4096)
    picture_height: int = option(480, low=8, high=4096)

    def __post_init__(self) -> None:
        super().__post_init__()
        require(len(set(self.cameras)) == len(self.cameras), "observation.cameras", "distinct", self.cameras)
        for key, seconds in self.delay.items():
            require(0 <= seconds <= MAX_DELAY, f"observation.delay.{key}", f"in [0, {MAX_DELAY:g}]", seconds)
        self.refuse_unused(("delay_range",), bool(self.delay), "observation.delay names what arrives late")


@dataclass(frozen=True)
class RandomisationConfig(Options, section="randomisation"):
    """Domain randomisation, resampled for each episode. Everything is off by default.

    Attributes:
        mass: relative range of mass: mass and inertia of each free body are multiplied by a factor in [1 - mass, 1 +
            mass].
        friction: relative range of friction: all friction is multiplied by one factor in [1 - friction, 1 + friction].
        lighting: change of lighting, in [0, 1]: brightness changes by up to this fraction, lamps move by up to this
            many metres.
        camera_position: half width of the uniform displacement of every camera [m].
        camera_rotation: largest rotation of every camera about a random axis [rad].
        dynamics: relative range of the arm's friction, viscosity, armature and payload: each value is multiplied by a
            factor of its own in [1 - dynamics, 1 + dynamics].
        latency: largest delay of an action beyond ``arm.dynamics.delay`` [s]; below one control period.
        observation_noise: multiple of typical sensor noise (``observation.NOISE``) on ``state`` and ``object``.
    """

    mass: float = option(0.0, low=0, below=1)
    friction: float = option(0.0, low=0, below=1)
    dynamics: float = option(0.0, low=0, below=1)
    lighting: float = option(0.0, low=0, high=1)
    camera_position: float = option(0.0, low=0)
    camera_rotation: float = option(0.0, low=0)
    latency: float = option(0.0, low=0)
    observation_noise: float = option(0.0, low=0)


@dataclass(frozen=True)
class TaskConfig(Options):
    """Options of all tasks.

    Attributes:
        name: name of the task in the table ``TASKS``.
        control_rate: actions per second [Hz]; must divide ``controller.rate``.
        max_episode_steps: number of steps after which an episode is truncated.
        terminate_on_success: whether success ends the episode.
        machine: file of a reward machine, whose stages become the task; see docs/reference/rewards.md#reward-machines.
        keep_out: boxes from which the arm has to keep away, six numbers each: centre (x, y, z) and half sizes [m]. They
            are visible and touch nothing; ``safety.barrier`` keeps the arm out.
    """

    name: str = ""
    control_rate: float = option(10.0, low=MIN_RATE, high=MAX_RATE)
    max_episode_steps: int = option(100, low=1)
    terminate_on_success: bool = True
    machine: str | None = None
    keep_out: tuple[float, ...] = ()
    arm: ArmConfig = field(default_factory=ArmConfig)
    controller: ControllerConfig = field(default_factory=ControllerConfig)
    observation: ObservationConfig = field(default_factory=ObservationConfig)
    randomisation: RandomisationConfig = field(default_factory=RandomisationConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        valid = len(self.keep_out) % 6 == 0 and all(half > 0 for box in self.keep_out_boxes for half in box[3:])
        require(valid, "keep_out", "6 numbers a box: a centre and 3 half sizes above 0", self.keep_out)
        ticks = self.controller.rate / self.control_rate
        if ticks < 1 or abs(ticks - round(ticks)) > 1e-9:
            raise ConfigError(
                f"controller.rate ({self.controller.rate} Hz) must be a whole multiple of control_rate "
                f"({self.control_rate} Hz), got {ticks:g} controller ticks a policy step"
            )
        latency = self.randomisation.latency
        require(latency < 1 / self.control_rate, "randomisation.latency", "below one control period", latency)

    @property
    def keep_out_boxes(self) -> tuple[tuple[float, ...], ...]:
        """``keep_out`` by box."""
        return tuple(tuple(self.keep_out[start : start + 6]) for start in range(0, len(self.keep_out), 6))

    @property
    def ticks(self) -> int:
        """Controller ticks in one control period."""
        return round(self.controller.rate / self.control_rate)
