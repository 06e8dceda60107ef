"""Configuration of safety. Every limit that is null is the robot's own, from its description."""

from dataclasses import dataclass, field
from typing import Any

from robo_rl.core import MAX_SECONDS, Options, option, require


@dataclass(frozen=True)
class WorkspaceConfig:
    """The box in which the end effector stays, and how far its z axis may lean.

    Attributes:
        enabled: whether this filter is there.
        low: lower corner of the box in the base frame [m]; null: the robot's.
        high: upper corner [m]; null: the robot's.
        cone_axis: direction in the base frame about which the end effector's z axis may lean.
        cone_angle: how far it may lean [rad]; null: no cone.
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
    """Joint limits on what actions ask for; one value a joint, null: the robot's.

    Attributes:
        enabled: whether this filter is there.
        margin: distance from the joint limits that is kept [rad].
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
    """Attributes:
    enabled: whether this filter is there.
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
    """Contact forces at the wrist: the arm slows down, then stops.

    Attributes:
        enabled: whether this filter is there.
        force: at which the episode stops [N]; null: the robot's.
        torque: at which the episode stops [Nm]; null: the robot's.
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
    """Near a singular posture motion towards it is slowed, away from it it is free.

    Attributes:
        enabled: whether this filter is there.
        slow: condition number of the end effector's Jacobian (m and rad) from which motion is slowed.
        stop: condition number at which nothing moves closer.
    """

    enabled: bool = True
    slow: float = 30.0
    stop: float = 100.0

    def __post_init__(self) -> None:
        require(1 < self.slow < self.stop, "safety.singularity.slow", f"in (1, stop={self.stop})", self.slow)


@dataclass(frozen=True)
class BarrierConfig(Options, section="safety.barrier"):
    """A control barrier function keeps the arm clear of itself and of keep-out volumes.

    Attributes:
        enabled: whether this filter is there.
        keep_out: names of geoms of the robot's model that the arm keeps away from, besides those of ``task.keep_out``.
        margin: smallest distance [m].
        approach: share of the distance above the margin that one step may take, in (0, 1].
        reach: pairs further apart than this are not looked at [m].
    """

    enabled: bool = True
    keep_out: tuple[str, ...] = ()
    margin: float = option(0.01, low=0)
    approach: float = option(0.5, above=0, high=1)
    reach: float = 0.15

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.reach > self.margin, "safety.barrier.reach", f"above margin={self.margin}", self.reach)


@dataclass(frozen=True)
class ObservationsConfig(Options, section="safety.observations"):
    """Which observations are believed. One that is not ends the episode and is never stored.

    Attributes:
        enabled: whether these guards are there. Shape, dtype, NaN and infinity are checked in any case.
        max_age: of the observation that is acted on [s]; an older one is answered by holding still. Null: of each
            source what the robot's own configuration allows it; where that says nothing 0.1 s.
        stale_steps: so many of those in a row stop the robot.
        position_tolerance: how far joints may be measured beyond their limits [rad].
        velocity_factor: how far joint velocities may be measured beyond the largest that actions may ask for.
        max_joint_jump: between two observations, beyond what the measured velocities explain [rad].
        pose_tolerance: largest distance between the end effector as measured and as the measured joints have it [m].
            Measurements may be 0.1 s apart: what the arm moves in that time is added to this and to the next.
        max_pose_jump: largest change of the vector between these two positions from one observation to the next [m].
        frozen_images: so many images in a row that are equal in every pixel are a fault of the camera; 0: not checked,
            as pictures of a simulated scene at rest are equal.
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
    """A specification in signal temporal logic, watched while the robot acts.

    Attributes:
        formula: for example ``always (force < 30 N) and eventually[0, 8 s] (end_effector_z > 0.1 m)``; null: none.
            Signals are the elements of observations by name, ``force``, ``torque`` and ``speed``. The episode stops
            once it cannot be kept any more.
        backup: the robot holds still while the highest robustness that can still be reached is below this; of an
            ``always`` that is what it came to so far, so for the rest of the episode. Null: never.
    """

    formula: str | None = None
    backup: float | None = None

    def __post_init__(self) -> None:
        backup = self.backup
        require(backup is None or backup > 0, "safety.specification.backup", "null or above 0", backup)


@dataclass(frozen=True)
class FeasibilityFilterConfig(Options, section="safety.feasibility"):
    """A learned value judges whether a constraint can be kept after an action, and replaces the action if not.

    Attributes:
        model: folder that ``robo-rl safety learn`` made; null: none.
        candidates: random actions that are tried in the place of one that is not let through.
        margin: by how much the constraint has to be kept on the way, in its units: what is learned is not exact.
    """

    model: str | None = None
    candidates: int = option(64, low=0)
    margin: float = option(0.0, low=0)


@dataclass(frozen=True)
class EmergencyStopConfig:
    """What a person stops the robot with. It cannot be switched off.

    Attributes:
        file: whose presence stops the robot, in place of the robot's own; null: the one that ``robo-rl stop
            robot=NAME`` makes. A robot obeys the stop of all robots (``robo-rl stop``) as well.
        simulation: whether a simulation obeys the stop of all robots; one that is given a ``file`` obeys that.
        guard: whether the robot moves only while a guard of it looks (``robo-rl guard``). Once a guard looks it does so
            in any case, until the guard leaves in good order.
        deadman: whether the robot moves only while a person holds a key (``robo-rl enable``).
        deadman_timeout: after which the key counts as let go [s]; terminals repeat a held key within 0.7 s.
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
    """What stands between the policy and the robot.

    Attributes:
        violation_budget: so many actions in a row that had to be changed end the episode; 0: no end.
        filters: further filters, each a mapping with the key ``target``: what it names is called with ``spec``,
            ``robot`` and the other keys and returns a :class:`~robo_rl.core.SafetyFilter`. They come after the built-in
            ones, but before the joint limits.
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
    """``safety=none``: actions go to the robot as they are."""
