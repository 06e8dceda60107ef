"""Configuration of safety. Every limit that is null is the robot's own, from its description."""

from dataclasses import dataclass, field
from typing import Any

from robo_rl.core import MAX_SECONDS, Options, option, require


@dataclass(frozen=True)
class WorkspaceConfig:
    """Box in which the end effector stays, and cone in which its z axis stays.

    Attributes:
        enabled: whether to use this filter.
        low: lower corner of the box in the base frame [m]; null: the robot's.
        high: upper corner [m]; null: the robot's.
        cone_axis: axis of the cone, a direction in the base frame.
        cone_angle: largest angle between the end effector's z axis and this axis [rad]; null: no cone.
    """

    enabled: bool = True
    low: tuple[float, ...] | None = None
    high: tuple[float, ...] | None = None
    cone_axis: tuple[float, ...] = (0.0, 0.0, -1.0)
    cone_angle: float | None = None

    def __post_init__(self) -> None:
        for key in ("low", "high"):
            value = getattr(self, key)
            require(value is None or len(value) == 3, f"safety.workspace.{key}", "null or 3 values", value)
        if self.low is not None and self.high is not None:
            ordered = all(low < high for low, high in zip(self.low, self.high, strict=True))
            require(ordered, "safety.workspace.low", f"below safety.workspace.high {self.high}", self.low)
        length = sum(value**2 for value in self.cone_axis) ** 0.5
        require(
            len(self.cone_axis) == 3 and length > 0,
            "safety.workspace.cone_axis",
            "a direction (3 values)",
            self.cone_axis,
        )
        angle = self.cone_angle
        require(angle is None or 0 < angle <= 3.15, "safety.workspace.cone_angle", "null or in (0, pi]", angle)


@dataclass(frozen=True)
class JointsConfig(Options, section="safety.joints"):
    """Limits of the joint motion that actions request; one value per joint, null: the robot's.

    Attributes:
        enabled: whether to use this filter.
        margin: distance that is kept from the joint limits [rad].
        velocity: largest joint velocity [rad/s].
        acceleration: largest joint acceleration, also in braking before a limit [rad/s^2].
        jerk: largest joint jerk [rad/s^3].
    """

    enabled: bool = True
    margin: float = option(0.0, low=0)
    velocity: tuple[float, ...] | None = None
    acceleration: tuple[float, ...] | None = None
    jerk: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for key in ("velocity", "acceleration", "jerk"):
            values = getattr(self, key)
            valid = values is None or all(value > 0 for value in values)
            require(valid, f"safety.joints.{key}", "null or values above 0", values)


@dataclass(frozen=True)
class SpeedConfig:
    """Limits of the end effector's speed.

    Attributes:
        enabled: whether to use this filter.
        linear: largest speed of the end effector [m/s]; null: the robot's.
        angular: largest rotation speed of the end effector [rad/s]; null: the robot's.
    """

    enabled: bool = True
    linear: float | None = None
    angular: float | None = None

    def __post_init__(self) -> None:
        for key in ("linear", "angular"):
            value = getattr(self, key)
            require(value is None or value > 0, f"safety.speed.{key}", "null or above 0", value)


@dataclass(frozen=True)
class ContactConfig(Options, section="safety.contact"):
    """Contact forces at the wrist at which the arm slows down, then stops.

    Attributes:
        enabled: whether to use this filter.
        force: force at which the episode stops [N]; null: the robot's.
        torque: torque at which the episode stops [Nm]; null: the robot's.
        slow_from: share of these limits from which motion is slowed, linearly to 0 at the limit.
    """

    enabled: bool = True
    force: float | None = None
    torque: float | None = None
    slow_from: float = option(0.8, above=0, below=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        for key in ("force", "torque"):
            value = getattr(self, key)
            require(value is None or value > 0, f"safety.contact.{key}", "null or above 0", value)


@dataclass(frozen=True)
class SingularityConfig:
    """Slowing of motion towards a singular posture; motion away from it is free.

    Attributes:
        enabled: whether to use this filter.
        slow: condition number of the end effector's Jacobian (m and rad) from which motion is slowed.
        stop: condition number at which no motion goes closer.
    """

    enabled: bool = True
    slow: float = 30.0
    stop: float = 100.0

    def __post_init__(self) -> None:
        require(1 < self.slow < self.stop, "safety.singularity.slow", f"in (1, stop={self.stop})", self.slow)


@dataclass(frozen=True)
class BarrierConfig(Options, section="safety.barrier"):
    """Control barrier function that keeps the arm clear of itself and of keep-out volumes.

    Attributes:
        enabled: whether to use this filter.
        keep_out: names of geoms of the robot's model from which the arm keeps away, besides those of ``task.keep_out``.
        margin: smallest distance [m].
        approach: share of the distance above the margin that one step may use up, in (0, 1].
        reach: distance beyond which pairs are not checked [m]; at most 2 m, up to which distances are measured.
    """

    enabled: bool = True
    keep_out: tuple[str, ...] = ()
    margin: float = option(0.01, low=0)
    approach: float = option(0.5, above=0, high=1)
    reach: float = option(0.15, high=2)

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.reach > self.margin, "safety.barrier.reach", f"above margin={self.margin}", self.reach)


@dataclass(frozen=True)
class ObservationsConfig(Options, section="safety.observations"):
    """Checks of observations. An observation that fails one ends the episode and is never stored.

    Attributes:
        enabled: whether to use these guards. Shape, dtype, NaN and infinity are checked in any case.
        max_age: largest age of the observation that an action is based on [s]; if it is older, the robot holds still.
            Null: the limit of each source in the robot's own configuration, or 0.1 s if it has none.
        stale_steps: number of such observations in a row that stops the robot.
        position_tolerance: distance by which measured joint positions may exceed their limits [rad].
        velocity_factor: largest measured joint velocity, as a multiple of the largest that actions may request.
        max_joint_jump: largest change of a joint position between two observations, beyond what the measured velocities
            explain [rad].
        pose_tolerance: largest distance between the measured position of the end effector and the one that the measured
            joints give [m]. Measurements may be 0.1 s apart: the distance that the arm moves in that time is added to
            this and to the next.
        max_pose_jump: largest change of the vector between these two positions from one observation to the next [m].
        frozen_images: number of images in a row, equal in every pixel, that count as a fault of the camera; 0: not
            checked, as images of a simulated scene at rest are equal.
    """

    enabled: bool = True
    max_age: float | None = None
    stale_steps: int = option(5, low=1)
    position_tolerance: float = 0.1
    velocity_factor: float = option(2.0, above=0)
    max_joint_jump: float = option(0.5, above=0)
    pose_tolerance: float = option(0.1, above=0)
    max_pose_jump: float = option(0.04, above=0)
    frozen_images: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        age = self.max_age
        young = age is None or 0 < age <= MAX_SECONDS
        require(young, "safety.observations.max_age", f"null or in (0, {MAX_SECONDS:g}]", age)
        tolerance = self.position_tolerance
        require(tolerance >= 0, "safety.observations.position_tolerance", "0 or more", tolerance)
        frozen = self.frozen_images
        require(frozen == 0 or frozen >= 2, "safety.observations.frozen_images", "0, or 2 or more", frozen)


@dataclass(frozen=True)
class SpecificationConfig:
    """Specification in signal temporal logic that is monitored while the robot acts.

    Attributes:
        formula: formula, for example ``always (force < 30 N) and eventually[0, 8 s] (end_effector_z > 0.1 m)``; null:
            none. Signals are the elements of observations by name, ``force``, ``torque`` and ``speed``. The episode
            stops once the formula cannot be satisfied any more.
        backup: robustness below which the robot holds still, compared with the highest robustness that can still be
            reached. For an ``always``, that is the robustness so far, so the robot then holds still for the rest of the
            episode. Null: never.
    """

    formula: str | None = None
    backup: float | None = None

    def __post_init__(self) -> None:
        backup = self.backup
        require(backup is None or backup > 0, "safety.specification.backup", "null or above 0", backup)


@dataclass(frozen=True)
class FeasibilityFilterConfig(Options, section="safety.feasibility"):
    """Learned value that judges whether a constraint can be kept after an action, which is replaced if not.

    Attributes:
        model: folder made by ``robo-rl safety learn``; null: none.
        candidates: number of random actions that are tried instead of a rejected one.
        margin: margin by which the constraint has to be kept on the way, in its units, as the learned value is not
            exact.
    """

    model: str | None = None
    candidates: int = option(64, low=0)
    margin: float = option(0.0, low=0)


@dataclass(frozen=True)
class EmergencyStopConfig:
    """Means by which a person stops the robot. They cannot be switched off.

    Attributes:
        file: file whose presence stops the robot, instead of the robot's own; null: the file that ``robo-rl stop
            robot=NAME`` creates. A robot obeys the stop of all robots (``robo-rl stop``) as well.
        simulation: whether a simulation obeys the stop of all robots; a simulation with a ``file`` obeys that file.
        guard: whether the robot moves only while a guard watches it (``robo-rl guard``). Once a guard watches it, this
            holds in any case, until the guard leaves in good order.
        deadman: whether the robot moves only while a person holds a key (``robo-rl enable``).
        deadman_timeout: time after which the key counts as released [s]; terminals repeat a held key within 0.7 s.
    """

    file: str | None = None
    simulation: bool = False
    guard: bool = False
    deadman: bool = False
    deadman_timeout: float = 0.8

    def __post_init__(self) -> None:
        timeout = self.deadman_timeout
        require(0 < timeout <= 5, "safety.emergency_stop.deadman_timeout", "in (0, 5]", timeout)


@dataclass(frozen=True)
class SafetyConfig(Options, section="safety"):
    """Filters between the policy and the robot.

    Attributes:
        violation_budget: number of changed actions in a row that ends the episode; 0: no limit.
        filters: further filters, each a mapping with the key ``target``, the name of a callable. It is called with
            ``spec``, ``robot`` and the other keys and returns a :class:`~robo_rl.core.SafetyFilter`. These filters come
            after the built-in ones, but before the joint limits.
    """

    workspace: WorkspaceConfig = field(default_factory=WorkspaceConfig)
    joints: JointsConfig = field(default_factory=JointsConfig)
    speed: SpeedConfig = field(default_factory=SpeedConfig)
    contact: ContactConfig = field(default_factory=ContactConfig)
    singularity: SingularityConfig = field(default_factory=SingularityConfig)
    barrier: BarrierConfig = field(default_factory=BarrierConfig)
    observations: ObservationsConfig = field(default_factory=ObservationsConfig)
    specification: SpecificationConfig = field(default_factory=SpecificationConfig)
    feasibility: FeasibilityFilterConfig = field(default_factory=FeasibilityFilterConfig)
    emergency_stop: EmergencyStopConfig = field(default_factory=EmergencyStopConfig)
    violation_budget: int = option(50, low=0)
    filters: list[Any] = field(default_factory=list)


@dataclass(frozen=True)
class NoSafetyConfig:
    """``safety=none``: actions reach the robot unchanged."""
