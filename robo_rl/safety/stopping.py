"""Stop trajectories: how an arm comes to rest within all of its limits, one control period after another.

A motion may begin only if a stop exists after it that breaks no limit. The planner simulates that stop: it applies,
period after period, the same rule that the arm would follow without any other command, and checks every limit on the
way. What a filter lets through therefore always leaves a stop, and that stop is executed next if no other motion leaves
one. The simulation is discrete in time, as commands are, so it holds at any rate.

:class:`~.reference.PythonStopPlanner` defines the rule. :class:`~.native.NativeStopPlanner` is the same in C++.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from .serial_chain import SerialChain

Array = NDArray[np.float64]

SLACK = 1e-6
"""Share of a limit that rounding may use, as actions are float32."""
LENGTH_SLACK = 1e-6
"""The same for a position [rad or m]."""
REST = 1e-12
"""Speed below which a joint is at rest [rad/s or m/s]."""
BRAKING_SHARE = 0.9
"""Share of the limits for a stop in end-effector space; the rest is for the Jacobian, which changes on the way."""

FINE = 0.004
"""Share of a joint's velocity limit, or of an end-effector action, below which no nearer control is searched for."""

CLEAR, JOINTS, END_EFFECTOR = 0, 1, 2
"""Outcomes of a plan: within all limits, a joint limit is broken, a limit of the end effector is broken."""


@dataclass(frozen=True)
class EndEffectorControl:
    """The motion of the arm by the elements of an end-effector action.

    Attributes:
        directions: displacement of the end effector by one unit of each element (6, k) [m, rad].
        local: whether displacements are in the end effector's frame; otherwise they are in the base frame.
        box: corners (3,) of the box at which the robot's own controller cuts displacements off [m]; None if it does
            not.
        damping: damping of the pseudo-inverse of the Jacobian.
    """

    directions: Array
    local: bool
    box: tuple[Array, Array] | None
    damping: float


@dataclass(frozen=True)
class StopProblem:
    """All that a stop depends on, except the state of the arm.

    Attributes:
        chain: the arm.
        control: how elements of actions move the arm; None if controls are joint velocities [rad/s].
        period: time between two commands [s].
        lower: lowest joint positions (n,) [rad].
        upper: highest joint positions (n,) [rad].
        velocity: velocity limits (n,) [rad/s].
        acceleration: acceleration limits (n,) [rad/s^2].
        jerk: jerk limits (n,) [rad/s^3].
        low: lower corner of the end effector's box (3,) [m].
        high: upper corner (3,) [m].
        linear: largest speed of the end effector [m/s].
        angular: largest rotation speed [rad/s].
        cone_axis: unit vector (3,) about which the end effector's z axis may lean.
        cone_angle: largest angle by which it may lean [rad]; pi or more for no cone.
        stride: periods between two checks of the end effector, and between two Jacobians.
    """

    chain: SerialChain
    control: EndEffectorControl | None
    period: float
    lower: Array
    upper: Array
    velocity: Array
    acceleration: Array
    jerk: Array
    low: Array
    high: Array
    linear: float
    angular: float
    cone_axis: Array
    cone_angle: float
    stride: int = 1

    @property
    def joints(self) -> int:
        return len(self.lower)

    @property
    def controls(self) -> int:
        return self.joints if self.control is None else self.control.directions.shape[1]

    @property
    def fine(self) -> Array:
        """Smallest changes of controls (k,) that are worth searching for."""
        return FINE * (self.velocity if self.control is None else np.ones(self.controls))

    @property
    def looks(self) -> bool:
        """Whether the end effector has a limit."""
        bounded = bool(np.isfinite([*self.low, *self.high]).any())
        return bounded or math.isfinite(self.linear) or math.isfinite(self.angular) or self.cone_angle < math.pi

    @property
    def braking_acceleration(self) -> Array:
        """Accelerations (n,) that a stop uses [rad/s^2]. In end-effector space, Jacobian changes use the rest."""
        return self.acceleration if self.control is None else (1 + BRAKING_SHARE) / 2 * self.acceleration

    @property
    def braking_jerk(self) -> Array:
        """Jerks (n,) that a stop uses [rad/s^3]."""
        return self.jerk if self.control is None else (1 + BRAKING_SHARE) / 2 * self.jerk

    @property
    def steps(self) -> int:
        """Largest number of periods until rest. A motion whose stop takes longer is not allowed."""
        with np.errstate(over="ignore"):
            longest = self.velocity / self.acceleration + 2 * self.acceleration / self.jerk
        return int(min(20_000, 3 * float(longest.max()) / self.period + 20))


class Plan(NamedTuple):
    """One period with given controls, and the stop after it.

    Attributes:
        outcome: :data:`CLEAR`, or which limit is broken.
        path: postures (m, n) that were checked on the way [rad]; the next call may overwrite it.
        travel: how far the joints (n,) move along it, there and back [rad]; the next call may overwrite it.
        state: state of the arm after the first period. Its controls are what the robot's own controller leaves of the
            given ones.
    """

    outcome: int
    path: Array
    travel: Array
    state: Array


class NearestControls(NamedTuple):
    """The result of a search for controls after which the arm can stop.

    Attributes:
        reasons: limits that were in the way: :data:`CLEAR` for none, or the sum of the other outcomes.
        controls: nearest controls (k,).
        stop: controls (k,) that continue the stop planned one period before.
        plan: plan for ``controls``.
    """

    reasons: int
    controls: Array
    stop: Array
    plan: Plan


class StopPlanner(Protocol):
    """Plans stops of one arm. A state is one array (3 n + 2 k,).

    It holds joint positions (n,) [rad], velocities (n,) [rad/s] and accelerations (n,) [rad/s^2], the controls (k,)
    that led there, and their rates of change (k,) [1/s].
    """

    fine: Array
    """Changes of controls (k,) that are worth looking for."""

    def plan(self, state: Array, measured: Array, controls: Array) -> Plan:
        """Simulate one period with ``controls`` (k,) and the stop after it.

        Args:
            state: state of the arm.
            measured: position of the end effector [m], from which the robot's own controller cuts displacements off,
                and its rotation matrix row by row, which actions in its own frame refer to (12,).
            controls: controls of the next period.
        """
        ...

    def nearest(self, state: Array, measured: Array, wanted: Array) -> NearestControls:
        """Return the controls nearest to ``wanted`` (k,) after which a stop breaks no limit.

        They are searched for on the way from the stop to ``wanted``. Joint velocities are first limited joint by joint;
        end-effector actions are first shortened as far as single joints require in the next period. If nothing else is
        found, the result is the stop, whose remaining part was checked one period before.
        """
        ...


def halvings(steps: float) -> int:
    """Return how often the way between two controls is halved if it is as long as ``steps`` fine changes: 2 to 6 times.

    At high rates, the stop and the wanted controls are so near to each other that more would make no difference.
    """
    return min(max(math.ceil(math.log2(max(steps, 1.0))), 2), 6)


def strongest_deceleration(speed: float, jerk: float, period: float) -> float:
    """Return the largest deceleration [rad/s^2] at ``speed`` that ``jerk`` can still ease out until rest.

    Decelerations m, m - jerk period, m - 2 jerk period, ... take away ``speed`` exactly.
    """
    step = jerk * period
    whole = math.floor((math.sqrt(1 + 8 * speed / (period * step)) - 1) / 2)
    return (speed / period + step * whole * (whole + 1) / 2) / (whole + 1)


def slower(velocity: float, acceleration: float, limit: float, jerk: float, period: float) -> float:
    """Return the next velocity of a joint that stops as fast as ``limit`` and ``jerk`` allow."""
    strength = min(limit, strongest_deceleration(abs(velocity), jerk, period))
    wanted = -strength if velocity > 0 else strength
    jolt = jerk * period
    return velocity + min(max(wanted, acceleration - jolt), acceleration + jolt) * period
