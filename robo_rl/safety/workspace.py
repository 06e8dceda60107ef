"""The box that the end effector stays in, and the cone that its z axis stays in."""

import math

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import PASSED, Observation, Verdict

from .actions import ActionMap, EndEffectorActions
from .motion import Action, ArmReader

Array = NDArray[np.float64]


CUT = Verdict(changed=True, reasons=("workspace",))
SLIP = 0.05
"""Distance outside its box up to which an arm is led back [m]."""


class WorkspaceBox:
    """Keeps the end effector in a box. Outside it, motion back towards it is free.

    If actions are axes of the base frame, each axis is limited separately, so the arm slides along a wall. An arm that
    has slipped out, as a compliant one does, is led back: motion that pushes further out becomes motion back, no longer
    than it. In other action spaces, the whole motion is shortened. An arm further out than :data:`SLIP` did not slip
    out, and the action alone decides on the way back.

    Args:
        low: lower corner (3,) in the base frame [m].
        high: upper corner (3,) [m].
        actions: map between actions and motion.
        reader: reads the arm's part of observations.
    """

    def __init__(self, low: Array, high: Array, actions: ActionMap, reader: ArmReader) -> None:
        self.low, self.high = low, high
        self._sides = tuple(zip(low.tolist(), high.tolist(), strict=True))
        self._actions = actions
        # The map, if its elements can be limited separately.
        self._base_axes = actions if isinstance(actions, EndEffectorActions) and not actions.own_frame else None
        self._reader = reader

    def reset(self) -> None:
        """Do nothing: there is no state to reset."""

    def __call__(self, observation: Observation, action: Action, now_ns: int) -> tuple[Action, Verdict]:
        """Return ``action``, shortened if it leads out of the box."""
        position = self._reader.coordinates(observation)
        motion = self._actions.motion(observation, action)
        displacement = motion.displacement
        shift = displacement[:3]
        if not math.isfinite(sum(position) + sum(shift)):  # not a valid action: the chain holds still, and stops
            return np.full_like(action, np.nan), CUT
        leads_back = self._base_axes is not None
        limited = [
            move if low <= coordinate + move <= high else _limited(low, high, coordinate, move, leads_back)
            for (low, high), coordinate, move in zip(self._sides, position, shift, strict=True)
        ]
        if limited == shift:
            return action, PASSED
        if self._base_axes is not None:
            changed = self._base_axes.with_displacement(action, [*limited, *displacement[3:]])
        else:
            uncut = motion.uncut[:3]  # scaling applies to this
            axes = zip(limited, shift, uncut, strict=True)
            share = min((cut / whole for cut, move, whole in axes if cut != move and whole), default=0.0)
            changed = self._actions.scaled(observation, action, max(share, 0.0))
        return changed, CUT


def _limited(low: float, high: float, coordinate: float, move: float, leads_back: bool) -> float:
    """Return the replacement of a ``move`` from ``coordinate`` that ends beyond ``low`` or ``high``."""
    if leads_back and high < coordinate < high + SLIP and move > 0:
        return -min(move, coordinate - high)
    if leads_back and low - SLIP < coordinate < low and move < 0:
        return min(-move, low - coordinate)
    return min(max(move, min(low - coordinate, 0.0)), max(high - coordinate, 0.0))


class OrientationCone:
    """Keeps the end effector's z axis within an angle of a direction. Motion back towards it is free.

    Args:
        axis: direction (3,) in the base frame.
        angle: largest angle between this direction and the end effector's z axis [rad].
        actions: map between actions and motion.
        reader: reads the arm's part of observations.
    """

    def __init__(self, axis: Array, angle: float, actions: ActionMap, reader: ArmReader) -> None:
        self._axis = axis / np.linalg.norm(axis)
        self._angle = angle
        self._actions = actions
        self._reader = reader

    def reset(self) -> None:
        """Do nothing: there is no state to reset."""

    def __call__(self, observation: Observation, action: Action, now_ns: int) -> tuple[Action, Verdict]:
        """Return ``action``, shortened if it leads out of the cone."""
        pointing = self._reader.rotation(observation)[:, 2]
        turn = np.array(self._actions.motion(observation, action).displacement[3:])
        now, then = self._lean(pointing), self._lean(_turned(pointing, turn))
        if then <= max(self._angle, now):
            return action, PASSED
        if now >= self._angle:
            factor = 0.0
        else:  # the lean need not grow linearly along a turn: bisect for the last share that is inside
            low, high = 0.0, 1.0
            for _ in range(20):
                middle = (low + high) / 2
                inside = self._lean(_turned(pointing, middle * turn)) <= self._angle
                low, high = (middle, high) if inside else (low, middle)
            factor = low
        return self._actions.scaled(observation, action, factor), Verdict(changed=True, reasons=("orientation",))

    def _lean(self, pointing: Array) -> float:
        return float(np.arccos(np.clip(pointing @ self._axis, -1.0, 1.0)))


def _turned(vector: Array, turn: Array) -> Array:
    """Return ``vector`` (3,) turned by the rotation vector ``turn`` (3,) [rad] (Rodrigues)."""
    angle = float(np.linalg.norm(turn))
    if angle == 0.0:
        return vector
    axis = turn / angle
    turned: Array = (
        vector * np.cos(angle) + np.cross(axis, vector) * np.sin(angle) + axis * (axis @ vector) * (1 - np.cos(angle))
    )
    return turned
