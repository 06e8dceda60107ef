"""Stop trajectories and the usual cases of the filters in C++, compiled on first use."""

import ctypes
import functools
import sys
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from robo_rl.core import NativeBuildError, native_library

from ..stopping import NearestControls, Plan, StopProblem

Array = NDArray[np.float64]

_INTEGERS = ("joints", "controls", "end_effector", "local", "holds_box", "stride", "steps", "looks")
_POINTERS = (
    *("order", "slides", "offsets", "rotations", "references", "tool_offset", "tool_rotation"),
    *("lower", "upper", "velocity", "acceleration", "jerk", "braking_acceleration", "braking_jerk"),
    *("inverse_acceleration", "inverse_jerk", "fine"),
    *("low", "high", "cone_axis", "directions", "box_low", "box_high"),
    *("state", "measured", "wanted", "stop", "path", "travel", "next_state"),
)
_PADDED = (
    *("lower", "upper", "velocity", "acceleration", "jerk", "braking_acceleration", "braking_jerk"),
    *("inverse_acceleration", "inverse_jerk"),
)
_WIDTH = 8
"""Multiple to which arrays of joints are padded; equal to kWidth in stopping.h."""
_NUMBERS = ("period", "rate", "linear", "angular", "cone_angle", "damping")
MUJOCO_FUNCTIONS = {
    "place_geoms": "mj_kinematics",
    "find_axes": "mj_comPos",
    "distance": "mj_geomDistance",
    "jacobian": "mj_jac",
}
"""Functions of MuJoCo that distances.h calls, by the names that it gives them."""


class _Planner(ctypes.Structure):
    """The struct ``Planner`` of stopping.h."""

    _fields_ = (
        *((name, ctypes.c_int32) for name in _INTEGERS),
        *((name, ctypes.c_void_p) for name in _POINTERS),
        *((name, ctypes.c_double) for name in _NUMBERS),
    )


@functools.cache
def library() -> ctypes.CDLL:
    """Return the compiled library.

    Raises:
        NativeBuildError: if it cannot be compiled or loaded.
    """
    try:
        loaded = ctypes.CDLL(str(native_library(Path(__file__).with_name("safety.cpp"))))
    except OSError as error:
        raise NativeBuildError(f"the compiled library does not load: {error}") from error
    for name in ("plan", "nearest", "is_surely_regular", "filter", "keep"):
        getattr(loaded, f"robo_rl_{name}").restype = ctypes.c_int32
    pointer = ctypes.c_void_p
    loaded.robo_rl_keep.argtypes = pointer, pointer, pointer, ctypes.c_int32, pointer
    return loaded


@functools.cache
def mujoco_functions() -> dict[str, int]:
    """Return the addresses of MuJoCo's functions, by the names of :data:`MUJOCO_FUNCTIONS`.

    Raises:
        NativeBuildError: if this build of MuJoCo does not export them, or if they take other arguments.
    """
    try:
        # The system finds a function in the libraries that the extension module is linked with, wherever those are.
        exported = ctypes.CDLL(sys.modules[mujoco.mj_kinematics.__module__].__file__)
        functions = {key: getattr(exported, name) for key, name in MUJOCO_FUNCTIONS.items()}
    except (OSError, AttributeError, KeyError) as error:
        raise NativeBuildError(f"the functions of MuJoCo {mujoco.__version__} are not found: {error}") from error
    if not _agree(functions):
        raise NativeBuildError(f"MuJoCo {mujoco.__version__} gives other distances in C++ than in Python")
    return {name: ctypes.cast(function, ctypes.c_void_p).value or 0 for name, function in functions.items()}


def _agree(functions: dict[str, Any]) -> bool:
    """Return whether MuJoCo's functions, called as in distances.h, give the same as from Python for two boxes."""
    model = mujoco.MjModel.from_xml_string(
        '<mujoco><worldbody><geom type="box" size=".1 .2 .3"/><body pos="1 0 0"><joint axis="0 1 0"/>'
        '<geom type="box" size=".2 .1 .1" pos="0 .1 .2"/></body></worldbody></mujoco>'
    )
    called, expected = mujoco.MjData(model), mujoco.MjData(model)
    called.qpos[0] = expected.qpos[0] = 0.4
    points, rows = np.zeros((2, 6)), np.zeros((2, 3, 1))
    number, pointer = ctypes.c_double, ctypes.c_void_p
    addresses = pointer(model._address), pointer(called._address)
    functions["distance"].restype = number
    functions["place_geoms"](*addresses)
    functions["find_axes"](*addresses)
    distance = functions["distance"](*addresses, 0, 1, number(2.0), pointer(points[0].ctypes.data))
    functions["jacobian"](*addresses, pointer(rows[0].ctypes.data), None, pointer(points[0, 3:].ctypes.data), 1)
    mujoco.mj_kinematics(model, expected)
    mujoco.mj_comPos(model, expected)
    same = distance == mujoco.mj_geomDistance(model, expected, 0, 1, 2.0, points[1])
    mujoco.mj_jac(model, expected, rows[1], None, points[1, 3:], 1)
    return bool(same and np.array_equal(points[0], points[1]) and np.array_equal(rows[0], rows[1]) and rows.any())


def available() -> tuple[bool, str]:
    """Return whether stops are planned in C++ on this machine, and why or how. Compiles the library if necessary."""
    try:
        library()
        mujoco_functions()
        return True, "compiled with this machine's C++ compiler"
    except NativeBuildError as error:
        return False, str(error)


class NativeStopPlanner:
    """The :class:`~..stopping.StopPlanner` in C++. Not thread-safe.

    Args:
        problem: arm and limits.

    Attributes:
        address: address of the struct ``Planner``, which is valid as long as this object exists.

    Raises:
        NativeBuildError: if :func:`available` is false.
    """

    def __init__(self, problem: StopProblem) -> None:
        chain, control = problem.chain, problem.control
        n, k = problem.joints, problem.controls
        box = None if control is None else control.box
        values: dict[str, Any] = {name: getattr(chain, name) for name in _POINTERS if hasattr(chain, name)}
        values |= {name: getattr(problem, name) for name in _POINTERS if hasattr(problem, name)}
        values["inverse_acceleration"] = 1 / problem.braking_acceleration
        values["inverse_jerk"] = 1 / problem.braking_jerk
        values |= {name: np.append(values[name], np.ones(-n % _WIDTH)) for name in _PADDED}
        values["directions"] = np.zeros((6, 1)) if control is None else control.directions
        values["box_low"], values["box_high"] = np.zeros((2, 3)) if box is None else box
        self.fine = problem.fine
        # Inputs and outputs at addresses that do not change: looking them up takes longer than a plan.
        self._state, self._measured = np.empty(3 * n + 2 * k), np.empty(12)
        self._wanted, self._stop = np.empty(k), np.empty(k)
        self._path, self._travel = np.empty((problem.steps // problem.stride + 3, n)), np.empty(n)
        self._next_state = np.zeros_like(self._state)
        for name in ("state", "measured", "wanted", "stop", "path", "travel", "next_state"):
            values[name] = getattr(self, f"_{name}")
        # Kept, because the structure holds only their addresses.
        self._arrays = {
            name: np.ascontiguousarray(value, np.int32 if name in ("order", "slides") else np.float64)
            for name, value in values.items()
        }
        self._planner = _Planner(
            joints=n,
            controls=k,
            end_effector=control is not None,
            local=control is not None and control.local,
            holds_box=box is not None,
            stride=problem.stride,
            steps=problem.steps,
            looks=problem.looks,
            period=problem.period,
            rate=1 / problem.period,
            linear=problem.linear,
            angular=problem.angular,
            cone_angle=problem.cone_angle,
            damping=0.0 if control is None else control.damping,
            **{name: array.ctypes.data for name, array in self._arrays.items()},
        )
        self.address = ctypes.addressof(self._planner)
        planner = ctypes.byref(self._planner)
        self._is_regular = functools.partial(library().robo_rl_is_surely_regular, planner)
        self._plan = functools.partial(library().robo_rl_plan, planner)
        self._nearest = functools.partial(library().robo_rl_nearest, planner)
        self._joints = self._state[:n]

    def plan(self, state: Array, measured: Array, controls: Array) -> Plan:
        self._state[:], self._measured[:], self._wanted[:] = state, measured, controls
        return self._planned(self._plan())

    def nearest(self, state: Array, measured: Array, wanted: Array) -> NearestControls:
        self._state[:], self._measured[:], self._wanted[:] = state, measured, wanted
        return self.result(self._nearest())

    def result(self, answer: int) -> NearestControls:
        """Return the result of a search in C++ that returned ``answer``."""
        return NearestControls(answer % 4, self._wanted.copy(), self._stop.copy(), self._planned(answer))

    def is_surely_regular(self, joints: Array, limit: float) -> bool:
        """Return whether the Jacobian's condition number at ``joints`` (n,) certainly is at most ``limit``.

        A quick test, which may return False although the number is.
        """
        self._joints[:] = joints
        return bool(self._is_regular(ctypes.c_double(limit)))

    def _planned(self, answer: int) -> Plan:
        return Plan(answer % 4, self._path[: answer // 4], self._travel, self._next_state.copy())
