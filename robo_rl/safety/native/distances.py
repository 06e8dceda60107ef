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
_TYPES = {"measured": np.bool_} | dict.fromkeys(("geoms", "bodies", "places", "columns"), np.int32)
"""Types of arrays, as in the struct, where they are not float64."""
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
        address: address of the struct ``Distances``, which is valid as long as this object exists.

    Raises:
        NativeBuildError: if MuJoCo's functions are not found.
    """

    def __init__(self, barrier: BarrierFilter, stop_margin: float) -> None:
        assert barrier.enough is not None, "the limits of joints bound every motion"
        clearances = barrier.clearances
        self._model, self._data = clearances.model, mujoco.MjData(clearances.model)
        mujoco.mj_kinematics(self._model, self._data)
        # An error of MuJoCo, such as too small a stack, is an exception here and would end the process in C++.
        for first, second in clearances.arrays["geoms"].tolist():
            mujoco.mj_geomDistance(self._model, self._data, first, second, FAR, np.empty(6))
        # Kept, because the structure holds only their addresses.
        own: dict[str, NDArray[Any]] = {"enough": barrier.enough, "posture": self._data.qpos}
        self._arrays = clearances.arrays | own
        for name, array in self._arrays.items():
            assert array.dtype == _TYPES.get(name, np.float64) and array.flags.c_contiguous, name
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
        self._keeps_in_python = functools.partial(clearances.keeps, stop_margin)

    def keeps(self, joints: Array, path: Array, travel: Array) -> bool:
        """Return whether every pair keeps the margin of stops; arguments as for :meth:`~..barrier.Clearances.keeps`."""
        arrays = [np.ascontiguousarray(array, np.float64) for array in (joints, path, travel)]
        first, postures, way = (array.ctypes.data for array in arrays)
        answer = self._keep(first, postures, len(path), way)
        return self._keeps_in_python(joints, path, travel) if answer == _UNKNOWN else answer == 1
