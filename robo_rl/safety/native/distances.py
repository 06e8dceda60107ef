"""The distances of the barrier in C++, measured by the functions of MuJoCo's library."""

import ctypes
import functools
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from ..barrier import FAR, BarrierFilter
from . import MUJOCO_FUNCTIONS, library, mujoco_functions

Array = NDArray[np.float64]

_INTEGERS = ("pairs", "size", "velocities", "measures")
_POINTERS = (
    *("geoms", "bodies", "places", "columns", "levers", "enough"),
    *("bounds", "joints", "points", "measured", "posture", "model", "data"),
)
_NUMBERS = ("margin", "approach", "stop_margin", "reach", "far")
_UNKNOWN = -1
"""Answer where geoms touch, as in distances.h."""


class _Distances(ctypes.Structure):
    """The struct ``Distances`` of distances.h."""

    _fields_ = (
        *((name, ctypes.c_int32) for name in _INTEGERS),
        *((name, ctypes.c_void_p) for name in (*_POINTERS, *MUJOCO_FUNCTIONS)),
        *((name, ctypes.c_double) for name in _NUMBERS),
    )


class NativeDistances:
    """The distances of a barrier in C++: which actions need no change, and which stops keep clear. Not thread-safe.

    What was measured is shared with the barrier's :class:`~..barrier.Clearances`. The MuJoCo state is not.

    Args:
        barrier: barrier of the chain.
        stop_margin: smallest distance during a stop [m].

    Attributes:
        address: address of the struct ``Distances``, which is as old as this object.

    Raises:
        NativeBuildError: if MuJoCo's functions are not found.
    """

    def __init__(self, barrier: BarrierFilter, stop_margin: float) -> None:
        assert barrier.enough is not None, "the limits of joints bound every motion"
        clearances = barrier.clearances
        self._model, self._data = clearances.model, mujoco.MjData(clearances.model)
        mujoco.mj_kinematics(self._model, self._data)
        arrays = clearances.arrays | {"enough": barrier.enough, "posture": self._data.qpos}
        # Kept, because the structure holds only their addresses.
        self._arrays: dict[str, NDArray[Any]] = {name: np.ascontiguousarray(value) for name, value in arrays.items()}
        self._struct = _Distances(
            pairs=len(barrier.enough),
            size=len(clearances.joints),
            velocities=self._model.nv,
            measures=barrier.measures,
            model=self._model._address,
            data=self._data._address,
            margin=barrier.margin,
            approach=barrier.approach,
            stop_margin=stop_margin,
            reach=clearances.reach,
            far=FAR,
            **{name: array.ctypes.data for name, array in self._arrays.items()},
            **mujoco_functions(),
        )
        self.address = ctypes.addressof(self._struct)
        self._keep = functools.partial(library().robo_rl_keep, self.address)
        self._keep_touching = functools.partial(clearances.keeps, stop_margin)

    def keeps(self, joints: Array, path: Array, travel: Array) -> bool:
        """Return whether every pair keeps the margin of stops; arguments as for :meth:`~..barrier.Clearances.keeps`."""
        arrays = [np.ascontiguousarray(array) for array in (joints, path, travel)]
        first, postures, way = (array.ctypes.data for array in arrays)
        answer = self._keep(first, postures, len(path), way)
        return self._keep_touching(joints, path, travel) if answer == _UNKNOWN else answer == 1
