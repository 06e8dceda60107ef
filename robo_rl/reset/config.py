"""Configuration of reset controllers."""

from dataclasses import dataclass, field
from typing import Any

from robo_rl.core import MAX_SECONDS, Options, option, require

WAYPOINT_ORIGINS = ("object", "place", "here")
GRIPPER_STATES = ("open", "closed")


@dataclass(frozen=True)
class SeededConfig:
    """Each episode begins with a reset of the backend from its own seed; in simulation, this places the robot."""


@dataclass(frozen=True)
class RecoveryConfig(Options, section="reset"):
    """Each episode after the first begins where the robot stands, after a recovery if the last one ended in failure.

    The robot is a vehicle: its actions have the elements ``steering`` (positive to the left) and ``throttle``, and its
    observations contain its speed, whether it is upright, and the position of the next checkpoint.

    Attributes:
        crash_terms: reward terms that are above 0.5 when a failure ended the episode. On a robot,
            ``robot.terminate_on`` and ``robot.truncate_on`` determine that they end it.
        stuck_terms: reward terms that are above 0.5 when the robot was stuck.
        speed: element of the observation with the forward speed [m/s].
        upright: element of the observation with the cosine of the lean; 1: upright.
        goal_x: element of the observation with the distance of the next checkpoint to the front, in the robot's frame
            [m].
        goal_y: element of the observation with its distance to the left [m].
        attempts: number of attempts to recover before a person is called.
        seconds: driving time of an attempt [s].
        rest_seconds: time for the robot to come to rest, after a crash and after each attempt [s].
        throttle: throttle of an attempt, which drives backwards first, in (0, 1].
        min_distance: distance that an attempt has to reach; otherwise the robot is still stuck [m].
        min_upright: smallest ``upright`` at the end of an attempt that has succeeded.
    """

    crash_terms: tuple[str, ...] = ("crashed", "flipped")
    stuck_terms: tuple[str, ...] = ("stuck",)
    speed: str = "velocity_x"
    upright: str = "up_z"
    goal_x: str = "checkpoint1_x"
    goal_y: str = "checkpoint1_y"
    attempts: int = option(10, low=1)
    seconds: float = option(1.2, above=0, high=MAX_SECONDS)
    rest_seconds: float = option(0.3, low=0, high=MAX_SECONDS)
    throttle: float = option(0.3, above=0, high=1)
    min_distance: float = option(0.25, low=0)
    min_upright: float = option(0.7, low=-1, high=1)


@dataclass(frozen=True)
class LearnedConfig(Options, section="reset"):
    """Each episode after the first begins where a second agent, which learns to return, has brought the robot.

    Attributes:
        agent: agent of the group ``agent`` that learns to return. It must have critics.
        reward: reward of the group ``reward``, with modules that judge states. The modules are made from the
            demonstrations, each reversed: the beginning of a demonstration is success. A state is as good as a
            beginning if its reward is at least the one that nine in ten beginnings reach.
        replay_capacity: number of observations in its replay buffer, including those of the task's policy.
        attempts: number of attempts to return before a person is called.
        seconds: longest duration of an attempt [s].
        least_value: smallest value of returning after an action of the policy; below it, the episode ends before the
            action, as the new state would be hard or impossible to leave again. With the default reward, a step costs
            up to 1, and a state without a way back has a value of -1 / (1 - gamma). Null: no limit.
        refuses_from: number of resets before the first episode that ends in this way; until then the value means
            little.
    """

    agent: Any = None
    reward: Any = None
    replay_capacity: int = option(100_000, low=1)
    attempts: int = option(3, low=1)
    seconds: float = option(8.0, above=0, high=MAX_SECONDS)
    least_value: float | None = -25.0
    refuses_from: int = option(20, low=0)


@dataclass  # not frozen: see ScriptConfig
class WaypointConfig:
    """Next position of the end effector.

    Attributes:
        at: origin of ``offset``: ``object``; ``place``, that of the object in the hand; or ``here``, where the end
            effector is when it starts towards this waypoint.
        offset: (x, y, z) in the base frame [m].
        gripper: state of the gripper on the way and after it, ``open`` or ``closed``.
        seconds: time at the waypoint, for the gripper to move [s].
    """

    at: str = "here"
    offset: tuple[float, ...] = (0.0, 0.0, 0.0)
    gripper: str = "open"
    seconds: float = 0.0

    def __post_init__(self) -> None:
        for key, choices in (("at", WAYPOINT_ORIGINS), ("gripper", GRIPPER_STATES)):
            require(getattr(self, key) in choices, f"reset waypoint {key}", ", ".join(choices), getattr(self, key))
        require(len(self.offset) == 3, "reset waypoint offset", "3 values", self.offset)
        require(0 <= self.seconds <= MAX_SECONDS, "reset waypoint seconds", f"in [0, {MAX_SECONDS:g}]", self.seconds)


@dataclass  # not frozen: OmegaConf makes frozen entries of a dictionary read-only before a file has filled them in
class ScriptConfig(Options, section="reset.scripts.*"):
    """Script that picks an object up and puts it back where a task may begin.

    Attributes:
        object: prefix of the elements ``<object>_x``, ``_y``, ``_z`` of the observation, the vector from the end
            effector to the object in the base frame [m].
        places: positions at which the object may lie: (x, y, z) of its centre in the base frame [m].
        spread: half widths, in x and y, of the area about a place in which the object is put [m].
        tolerance: distance outside this area, in x and y, or from the height of the place, within which the object
            still lies well [m].
        every_time: whether the object is put elsewhere before every episode, not only if it does not lie well, so that
            a policy that fails at one place meets others.
        within: lower and upper corner (x, y) of the area in which the object may be while the policy acts, in the base
            frame [m]. Outside it, the episode ends before the arm cannot reach the object any more; none: anywhere.
        grasp: waypoints by which the object is picked up; skipped if the gripper holds it already.
        put: waypoints by which the object is put down, at a point of the nearest place that is resampled for each
            attempt.
    """

    object: str = "to_object"
    places: list[list[float]] = field(default_factory=list)
    spread: tuple[float, ...] = (0.0, 0.0)
    tolerance: float = option(0.02, above=0)
    every_time: bool = False
    within: list[list[float]] = field(default_factory=list)
    grasp: list[WaypointConfig] = field(default_factory=list)
    put: list[WaypointConfig] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__post_init__()
        places = bool(self.places) and all(len(place) == 3 for place in self.places)
        require(places, "reset.scripts.*.places", "one or more of 3 values", self.places)
        spread = len(self.spread) == 2 and min(self.spread) >= 0
        require(spread, "reset.scripts.*.spread", "2 values, 0 or more", self.spread)
        corners = [len(corner) for corner in self.within]
        box = not corners or (corners == [2, 2] and all(low < high for low, high in zip(*self.within, strict=True)))
        require(box, "reset.scripts.*.within", "[] or [[x, y], [x, y]], the lower corner first", self.within)
        for key in ("grasp", "put"):
            require(bool(getattr(self, key)), f"reset.scripts.*.{key}", "one or more waypoints", [])


@dataclass(frozen=True)
class HomingConfig(Options, section="reset"):
    """Each episode after the first begins where the arm has brought itself: at home, with the object put back.

    Attributes:
        scripts: scripts that put objects back, by the name of the task. Without a script, the arm only goes home.
        home: joint positions at which episodes begin [rad]; null: the robot's.
        attempts: number of attempts to put the object back and go home before a person is called.
        lift: height of the end effector above which it goes home [m]; further attempts go higher, up to twice that.
        clearance: distance that the way home keeps from fixed objects and from the arm itself [m].
        tolerance: distance from a waypoint at which it counts as reached [m]; from home, twice that.
        seconds: time to reach a waypoint before the attempt counts as failed [s].
        perturbation: largest offset in x, y and z at which further attempts reach for the object [m].
        ask: whether a person at the terminal is asked for help when every attempt has failed; otherwise the backend's
            own reset is used.
    """

    scripts: dict[str, ScriptConfig] = field(default_factory=dict)
    home: tuple[float, ...] | None = None
    attempts: int = option(3, low=1)
    lift: float = option(0.15, low=0)
    clearance: float = option(0.01, above=0)
    tolerance: float = option(0.012, above=0)
    seconds: float = option(4.0, above=0, high=MAX_SECONDS)
    perturbation: float = option(0.01, low=0)
    ask: bool = False
