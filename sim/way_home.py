"""The way home of a robot's end effector along axes that actions do not move, within a share of the arm's limits."""

from dataclasses import dataclass

import mujoco
import numpy as np
from numpy.typing import NDArray

from robo_rl.core import matrix_of_vector, vector_of_matrix

Array = NDArray[np.float64]

SHARE = 0.1
"""Share of each limit that the way home may use. Safety filters do not include it, and actions may use the rest."""
PLANNED = 0.08
"""Share that is planned with, as the arm's real way differs a little from the one in :func:`joint_motion`."""
PARTS = 32
"""Parts of the way in which the motion of the joints is computed."""
DAMPING = 0.02
"""Damping of the inverse kinematics, as in safety filters."""
SLOWER = 1.2
"""Factor by which a way is stretched until it keeps all limits."""
LONGEST_STEPS = 100_000
ITERATIONS = 8
"""Steps of the search for the frame at the end of the way."""


@dataclass(frozen=True)
class Way:
    """Way home of an end effector along the axes of a frame that actions do not move.

    Attributes:
        home: position (3,) [m] and rotation (3, 3) at home.
        shifted: translation (3,) from home at the beginning [m].
        turned: rotation vector (3,) from home at the beginning [rad].
        frame: axes of actions (3, 3).
        moves: which of the six axes actions move.
    """

    home: tuple[Array, Array]
    shifted: Array
    turned: Array
    frame: Array
    moves: NDArray[np.bool_]

    def lengths(self) -> Array:
        """Return the length of the translation [m] and of the rotation [rad] (2,)."""
        parts = zip((self.shifted, self.turned), (self.moves[:3], self.moves[3:]), strict=True)
        return np.array([np.linalg.norm(np.where(axes, 0.0, self.frame.T @ offset)) for offset, axes in parts])

    def pose(self, left: float) -> tuple[Array, Array]:
        """Return position (3,) [m] and rotation (3, 3) where a share ``left`` of the way is left."""
        shifted, _ = kept_offset(self.shifted, self.shifted, self.frame, self.moves[:3], left, np.inf)
        turned, _ = kept_offset(self.turned, self.turned, self.frame, self.moves[3:], left, np.inf)
        return self.home[0] + shifted, matrix_of_vector(turned) @ self.home[1]


@dataclass(frozen=True)
class WayLimits:
    """Limits of the arm that a way home keeps a share of.

    Attributes:
        velocity: largest joint velocities (n,) [rad/s].
        acceleration: largest joint accelerations (n,) [rad/s^2].
        jerk: largest joint jerks (n,) [rad/s^3].
        speeds: largest speed [m/s] and rotation speed [rad/s] of the end effector (2,).
        period: time between two targets [s].
    """

    velocity: Array
    acceleration: Array
    jerk: Array
    speeds: Array
    period: float


def joint_motion(
    model: mujoco.MjModel, joints: NDArray[np.intp], dofs: NDArray[np.intp], site: int, posture: Array, way: Way
) -> Array:
    """Return the motion of the joints (PARTS, n) for each part of a way, times the number of parts [rad].

    Args:
        model: model of the arm.
        joints: indices (n,) of the joints in ``qpos``.
        dofs: indices (n,) of the joints in ``qvel``.
        site: number of the end effector's site.
        posture: joint positions (n,) at the beginning [rad].
        way: way of the end effector.
    """
    data, jacobian, posture, error = mujoco.MjData(model), np.empty((6, model.nv)), posture.copy(), np.empty(6)
    motion = np.empty((PARTS, len(posture)))
    for part in range(PARTS):
        position, rotation = way.pose(1 - (part + 1) / PARTS)
        data.qpos[joints] = posture
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        mujoco.mj_jacSite(model, data, jacobian[:3], jacobian[3:], site)
        columns = jacobian[:, dofs]
        # From where the arm is: the next part makes up for what damping leaves over, as the arm's next step does.
        error[:3] = position - data.site_xpos[site]
        error[3:] = vector_of_matrix(rotation @ data.site_xmat[site].reshape(3, 3).T)
        change = columns.T @ np.linalg.solve(columns @ columns.T + DAMPING**2 * np.eye(6), error)
        posture += change
        motion[part] = change * PARTS
    return motion


def schedule(lengths: Array, motion: Array, limits: WayLimits) -> Array:
    """Return the share of the rest of the way that is left after each target (m,), the last one 0.

    Velocity, acceleration and jerk of the progress are bounded, as it is a step that three moving averages smooth.

    Args:
        lengths: lengths of the way, translation and rotation (2,) [m, rad].
        motion: motion of the joints on each part of the way, times the number of parts (m, n) [rad].
        limits: limits, of which a share is used.
    """
    # A joint moves by q(s(t)): q' s', q'' s'^2 + q' s'', q''' s'^3 + 3 q'' s' s'' + q' s'''.
    first = np.abs(motion).max(axis=0)
    second = np.abs(np.diff(motion, axis=0)).max(axis=0) * PARTS
    third = np.abs(np.diff(motion, 2, axis=0)).max(axis=0) * PARTS**2
    stretch = 1.0
    while True:
        counts = _counts(first, lengths, limits, stretch)
        speed = 1 / (counts[0] * limits.period)
        acceleration = speed / (counts[1] * limits.period)
        jerk = acceleration / (counts[2] * limits.period)
        loads = [
            lengths * speed / limits.speeds,
            first * speed / limits.velocity,
            (first * acceleration + second * speed**2) / limits.acceleration,
            (first * jerk + 3 * second * speed * acceleration + third * speed**3) / limits.jerk,
        ]
        if max(float(load.max()) for load in loads) <= PLANNED or sum(counts) > LONGEST_STEPS:
            break
        stretch *= SLOWER
    steps = np.ones(1)
    for count in counts:
        steps = np.convolve(steps, np.full(count, 1 / count))
    left = np.maximum(1 - np.cumsum(steps), 0.0)
    left[-1] = 0.0
    before = np.concatenate([[1.0], left[:-1]])
    shares: Array = np.divide(left, before, out=np.zeros_like(left), where=before > 0)
    return shares


def _counts(first: Array, lengths: Array, limits: WayLimits, stretch: float) -> tuple[int, int, int]:
    """Return the lengths of the three moving averages [periods], the longest one first."""
    period = limits.period
    slowest = max(float((lengths / limits.speeds).max()), float((first / limits.velocity).max())) / PLANNED / period
    one = max(1, int(np.ceil(stretch * slowest)))
    speed = first / (one * period)
    two = max(1, int(np.ceil(stretch * float((speed / limits.acceleration).max()) / PLANNED / period)))
    acceleration = speed / (two * period)
    three = max(1, int(np.ceil(stretch * float((acceleration / limits.jerk).max()) / PLANNED / period)))
    return max(one, two + three), two, three  # else the jerks of starting and stopping add up in the middle


def end_frame(rotation: Array, home: Array, turned: Array, moves: NDArray[np.bool_]) -> Array:
    """Return the rotation (3, 3) of an end effector at the end of its way home, if actions are in its own frame.

    Args:
        rotation: rotation (3, 3) at the beginning.
        home: rotation (3, 3) at home.
        turned: rotation vector (3,) from home to the beginning [rad].
        moves: which of roll, pitch and yaw actions move.
    """
    for _ in range(ITERATIONS):  # what is left to turn depends on where the axes are at the end
        rotation = matrix_of_vector(rotation @ np.where(moves, rotation.T @ turned, 0.0)) @ home
    return rotation


def kept_offset(
    offset: Array, before: Array, frame: Array, moves: NDArray[np.bool_], left: float, largest: float
) -> tuple[Array, bool]:
    """Return the offset (3,) from home of a reference, without the motion of its action, and whether more is left.

    It is that of ``offset`` (3,) along axes of ``frame`` (3, 3) that actions move. Along the others it is a share
    ``left`` of that of the last reference, ``before`` (3,), or more: it changes by at most ``largest``.
    """
    kept: Array = frame @ np.where(moves, frame.T @ offset, 0.0)
    rest = frame @ np.where(moves, 0.0, frame.T @ before)
    length = float(np.linalg.norm(rest))
    left = max(left, 1 - largest / length) if length else 0.0
    return (kept + left * rest, True) if left else (kept, False)
