"""The usual cases of the filters of an arm's actions, in one call of C++."""

import ctypes
import functools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import PASSED, Observation, SafetyFilter, Verdict

from ..actions import EndEffectorActions, JointActions, JointDeltaActions, JointPositionActions
from ..barrier import BarrierFilter
from ..joint_limits import JointLimits
from ..motion import Action, ArmReader
from ..slowing import ContactLimits, EndEffectorSpeed, SingularitySlowdown
from ..workspace import OrientationCone, WorkspaceBox
from . import NativeStopPlanner, library
from .distances import NativeDistances

_ORDER = (ContactLimits, WorkspaceBox, EndEffectorSpeed, SingularitySlowdown, BarrierFilter, JointLimits)
_BOX, _BARRIER, _LIMITS, _DOUBTFUL = 2, 5, 6, 7
"""Filters up to which an action was filtered, as in filters.h: places in the order, from 1."""
_REASONS = ("workspace", "speed", "joint_limits", "end_effector")
"""Reasons of the bits of an answer."""
_SPACES = {JointDeltaActions: 0, JointPositionActions: 1, EndEffectorActions: 2}
"""Action spaces, as in filters.h."""

_POINTERS = (
    *("planner", "distances", "observed", "action", "state", "scales", "lower", "nearest_low", "nearest_high"),
    *("low", "high", "axes", "endless"),
)
_INTEGERS = (
    *("space", "stages", "joints_place", "position_place", "columns_place", "force_place", "torque_place"),
    "nearest",
)
_NUMBERS = ("force", "torque", "slow_from", "shift", "turn", "slow")
_TYPES = {"observed": np.float32, "action": np.float32, "axes": np.int32, "endless": np.int32}
"""Types of arrays, as in the struct, where they are not float64."""


class _Filters(ctypes.Structure):
    """The struct ``Filters`` of filters.h."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in _POINTERS),
        *((name, ctypes.c_int32) for name in _INTEGERS),
        *((name, ctypes.c_double) for name in _NUMBERS),
    )


class NativeFilters:
    """The first filters of a chain in the usual cases, in one call of C++, which takes a fraction of the time.

    The result is that of the filters themselves, called one after another. Their state is shared, so the chain may go
    on with any of them. A filter and those after it are left to the chain where the case is not usual: an observation
    that is not finite, a load at the wrist, a posture that may be singular, a distance that requires another action, or
    filters of another kind, such as the user's.

    Args:
        filters: filters of the chain, in order. The last one is :class:`~..joint_limits.JointLimits`.
        planner: planner of that filter.
        actions: map between actions and motion.
        reader: reads the arm's part of observations.
        distances: distances of the barrier; None if there is no barrier.
        size: number of elements of ``state`` in observations.

    Attributes:
        applied: see :class:`~..chain.FusedFilters`.
    """

    def __init__(
        self,
        filters: Sequence[SafetyFilter],
        planner: NativeStopPlanner,
        actions: JointActions | EndEffectorActions,
        reader: ArmReader,
        distances: NativeDistances | None,
        size: int,
    ) -> None:
        places = _places(filters)
        known, limits = filters[: len(places)], filters[-1]
        self._applied = [sum(place <= last for place in places) for last in range(_DOUBTFUL + 1)]
        has_cone = any(isinstance(each, OrientationCone) for each in filters)
        stages = _BOX if has_cone else _LIMITS if len(known) == len(filters) else _BARRIER
        assert isinstance(limits, JointLimits)
        self._planner, self._limits, self._distances = planner, limits, distances
        self.applied = 0
        self._observed = np.zeros(size, np.float32)
        self._action = np.zeros(actions.moves.stop + actions.has_gripper, np.float32)
        values = {"observed": self._observed, "action": self._action, "state": limits.state}
        values |= _arrays_of(actions)
        numbers = dict.fromkeys(("force", "torque", "shift", "turn", "slow"), math.inf) | {"slow_from": 1.0}
        values |= {"low": np.full(3, -np.inf), "high": np.full(3, np.inf)}
        for each in known:
            if isinstance(each, WorkspaceBox):
                values |= {"low": each.low, "high": each.high}
            elif isinstance(each, ContactLimits | EndEffectorSpeed | SingularitySlowdown):
                numbers |= {name: getattr(each, name) for name in numbers if hasattr(each, name)}
        # Kept, because the structure holds only their addresses.
        self._arrays: dict[str, NDArray[Any]] = {
            name: np.ascontiguousarray(value, _TYPES.get(name, np.float64)) for name, value in values.items()
        }
        self._struct = _Filters(
            planner=planner.address,
            space=_SPACES[type(actions)],
            stages=stages,
            distances=None if distances is None else distances.address,
            **reader.places,
            **numbers,
            **{name: array.ctypes.data for name, array in self._arrays.items()},
        )
        self._filter = functools.partial(library().robo_rl_filter, ctypes.byref(self._struct))
        reasons = [tuple(name for bit, name in enumerate(_REASONS) if bits >> bit & 1) for bits in range(16)]
        self._verdicts = [_verdict(names) for names in reasons]

    def reset(self) -> None:
        """Do nothing: the state is that of the filters."""

    def __call__(self, observation: Observation, action: Action, now_ns: int) -> tuple[Action, Verdict]:
        """Return ``action`` after the first filters, and their combined verdict."""
        self.applied = 0
        self._observed[:], self._action[:] = observation["state"], action
        answer = self._filter()
        verdict, last = self._verdicts[answer & 15], answer >> 4
        changed = action if verdict is PASSED else self._action.copy()
        if last == _DOUBTFUL:
            changed, other = self._limits.conclude(observation, changed, self._planner.result(self._struct.nearest))
            reasons = verdict.reasons + other.reasons
            verdict = replace(other, reasons=reasons) if other.stop else _verdict(reasons)
        self.applied = self._applied[last]
        return changed, verdict


def _places(filters: Sequence[SafetyFilter]) -> list[int]:
    """Return the places in the order, from 1, of the first filters, as many as follow one another in this order.

    A user's filter may be of the same class as one of these, so every class counts once.
    """
    places: list[int] = []
    for each in filters:
        place = _ORDER.index(type(each)) + 1 if type(each) in _ORDER else 0
        if place <= max(places, default=0):
            break
        places.append(place)
    return places


@functools.cache
def _verdict(reasons: tuple[str, ...]) -> Verdict:
    return Verdict(changed=True, reasons=reasons) if reasons else PASSED


def _arrays_of(actions: JointActions | EndEffectorActions) -> dict[str, NDArray[Any]]:
    """Return the arrays that map actions to motion."""
    if isinstance(actions, EndEffectorActions):
        axes, scales = np.array(actions.scales).reshape(-1, 2).T
        return {"axes": axes.astype(np.int32), "scales": scales}
    arrays = {"scales": actions.scales}
    if isinstance(actions, JointPositionActions):
        arrays |= {name: getattr(actions, name) for name in ("lower", "nearest_low", "nearest_high")}
        arrays["endless"] = actions.endless.astype(np.int32)
    return arrays
