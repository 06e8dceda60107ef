"""Configuration of reset controllers."""

from dataclasses import dataclass, field
from typing import Any

from robo_rl.core import MAX_SECONDS, Options, option, require

WAYPOINT_ORIGINS = ("object", "place", "here")
GRIPPER_STATES = ("open", "closed")


@dataclass(frozen=True)
class SeededConfig:
    """Each episode begins by a reset of the backend from a seed of its own: in simulation the robot is put there."""


@dataclass(frozen=True)
class RecoveryConfig(Options, section="reset"):
    """Each episode after the first begins where the robot stands, after a recovery where the last one ended in failure.

    The robot is a vehicle: its actions have the elements ``steering`` (positive to the left) and ``throttle``, and its
    observations tell its speed, whether it is upright and where it is to go.

    Attributes:
        crash_terms: reward terms that are above 0.5 when a failure ended the episode. On a robot it is
            ``robot.terminate_on`` and ``robot.truncate_on`` that have them end it.
        stuck_terms: the same when the robot did not come away from its place.
        speed: element of the observation: speed forwards [m/s].
        upright: element of the observation: cosine of the lean, 1 upright.
        goal_x: element of the observation: how far ahead the next checkpoint is, in the robot's frame [m].
        goal_y: the same to the left [m].
        attempts: to recover, before a person is called.
        seconds: how long an attempt drives [s].
        rest_seconds: how long the robot is given to come to rest, after a crash and after each attempt [s].
        throttle: with which it drives, backwards first, in (0, 1].
        min_distance: the robot is stuck still until an attempt comes so far [m].
        min_upright: an attempt that ends with ``upright`` below this has not helped.
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
    """Each episode after the first begins where a second agent has brought the robot back to, which learns to.

    Attributes:
        agent: of the group ``agent``: what learns to return. It must have critics.
        reward: of the group ``reward``, with modules that judge states. They are made from the demonstrations, each
            backwards: where those begin is success. A state is as good as a beginning if the modules give it no less
            than they give nine in ten of those.
        replay_capacity: observations that its replay holds, those of the task's policy included.
        attempts: to return, before a person is called.
        seconds: how long an attempt may take [s].
        least_value: the episode ends rather than with an action of the policy after which returning has a value below
            this: the state would be hard to leave again, or not at all. With the default reward a step costs up to 1,
            and a state that there is no way back from has a value of -1 / (1 - gamma). Null: never.
        refuses_from: so many resets come before the first such end; until then the value means little.
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
    """Where the end effector goes next.

    Attributes:
        at: from where ``offset`` counts: ``object``; ``place``, of the object in the hand; or ``here``, where the end
            effector was when it set out.
        offset: (x, y, z) in the base frame [m].
        gripper: ``open`` or ``closed``, on the way and after it.
        seconds: to stay there, for the gripper to move [s].
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
    """How an object is picked up and put back where a task may begin.

    Attributes:
        object: the elements ``<object>_x``, ``_y``, ``_z`` of the observation are the vector from the end effector to
            the object, in the base frame [m].
        places: where the object may lie: (x, y, z) of its middle in the base frame [m].
        spread: half widths, in x and y, of the square about a place in which the object is put [m].
        tolerance: how far outside, in x and y, or off the height of the place it still lies well [m].
        every_time: whether it is put elsewhere before every episode, rather than only where it does not lie well: a
            policy that fails at one place is to meet others.
        within: lower and upper corner (x, y) of where it may be while the policy acts, in the base frame [m]: beyond,
            the episode ends before it is where the arm cannot fetch it; none: anywhere.
        grasp: how it is picked up; left out where the gripper holds it already.
        put: how it is put down, at a point of the nearest place that is drawn anew for each attempt.
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
    """Each episode after the first begins where the robot, an arm, has brought itself: at home, the object put back.

    Attributes:
        scripts: how objects are put back, by the name of the task. Where there is none the arm goes home alone.
        home: joint positions at which episodes begin [rad]; null: the robot's.
        attempts: to put the object back and go home, before a person is called.
        lift: height of the end effector above which it goes home [m]; further attempts go higher, up to twice that.
        clearance: that the way home keeps from what stands still and from the arm itself [m].
        tolerance: distance from a waypoint at which it counts as reached [m]; from home, twice that.
        seconds: to reach a waypoint, before an attempt has failed [s].
        perturbation: how far off the object further attempts reach for it, in x, y and z [m].
        ask: whether a person is at the terminal, to be asked for help when every attempt failed. Otherwise the
            backend's own reset has to do.
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
