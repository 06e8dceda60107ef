"""Controller ticks of a simulated arm in C++: hundreds of them without Python between them.

:class:`NativeServo` computes what :class:`..controller.EndEffectorController` defines, on the same memory, while other
threads run; :class:`NativePredictor` predicts joint positions. Both are compiled on first use; :func:`available`
returns whether this machine can compile them.
"""

import ctypes
import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from robo_rl.core import NativeBuildError, native_library

if TYPE_CHECKING:
    from ..controller import EndEffectorController

_INTEGERS = ("joints", "site", "gripper")
_POINTERS = (
    *("positions", "dofs", "motors", "wrench"),
    *("lower", "upper", "braking", "top_speed", "top_torque", "home"),
    *("stiffness", "damping", "clip", "reference_position", "reference_quaternion", "previous"),
)
_NUMBERS = ("limit_approach", "largest_change", "posture_stiffness", "posture_damping", "gripper_target")


class _Servo(ctypes.Structure):
    """The struct ``Servo`` of servo.cpp."""

    _fields_ = (
        *((name, ctypes.c_int32) for name in _INTEGERS),
        *((name, ctypes.c_void_p) for name in _POINTERS),
        *((name, ctypes.c_double) for name in _NUMBERS),
    )


class _Prediction(ctypes.Structure):
    """The struct ``Prediction`` of servo.cpp."""

    _fields_ = (
        *((name, ctypes.c_int32) for name in ("joints", "ticks")),
        *((name, ctypes.c_void_p) for name in ("positions", "dofs", "motors", "stiffness", "damping", "limits")),
    )


@functools.cache
def _library() -> ctypes.CDLL:
    folder = Path(mujoco.__file__).parent
    # By its full name, under which Python has already loaded it.
    library = next(iter([*folder.glob("libmujoco.so.*"), *folder.glob("libmujoco*.dylib")]), None)
    if library is None:
        raise NativeBuildError(f"there is no MuJoCo library to link with in {folder}")
    arguments = ("-I", str(folder / "include"), str(library), f"-Wl,-rpath,{folder}")
    try:
        native = ctypes.CDLL(str(native_library(Path(__file__).with_name("servo.cpp"), arguments)))
    except OSError as error:
        raise NativeBuildError(f"the compiled library does not load: {error}") from error
    pointer = ctypes.c_void_p
    native.robo_rl_servo.argtypes = (ctypes.POINTER(_Servo), pointer, pointer, ctypes.c_int32, pointer)
    native.robo_rl_servo.restype = None
    native.robo_rl_predict.argtypes = (ctypes.POINTER(_Prediction), pointer, pointer, pointer, pointer)
    native.robo_rl_predict.restype = None
    return native


def available() -> tuple[bool, str]:
    """Return whether control periods run in C++ on this machine, and the reason. Compiles the library on first use."""
    try:
        _library()
        return True, "compiled with this machine's C++ compiler"
    except NativeBuildError as error:
        return False, str(error)


class NativeServo:
    """A runner of controller ticks and physics steps in C++.

    Args:
        controller: controller whose memory is used and must not move.
        model: model of the simulation.
        data: state of the model.
        wrench_addresses: indices (6,) of the wrist's force and torque in ``data.sensordata``.

    Raises:
        NativeBuildError: if :func:`available` is false.
    """

    def __init__(
        self, controller: "EndEffectorController", model: Any, data: Any, wrench_addresses: NDArray[np.int_]
    ) -> None:
        self._run = _library().robo_rl_servo
        self._controller = controller
        self._model, self._data = model, data  # keeps the memory alive
        self._addresses = (model._address, data._address)
        self._wrench = np.zeros(6)
        integers, arrays, numbers = controller.native_parts()
        indices = {"wrench": wrench_addresses} | integers
        self._arrays = {name: np.ascontiguousarray(value, np.int32) for name, value in indices.items()} | arrays
        for name, array in arrays.items():
            if array.dtype != np.float64 or not array.flags.c_contiguous:  # C++ would read other memory
                raise TypeError(f"{name}: expected contiguous float64, got {array.dtype} with strides {array.strides}")
        self._servo = _Servo(
            joints=len(arrays["home"]),
            site=controller.site,
            gripper=-1 if controller.gripper is None else controller.gripper,
            **{name: array.ctypes.data for name, array in self._arrays.items()},
            **numbers,
        )

    def run(self, ticks: int) -> NDArray[np.float64]:
        """Take ``ticks`` physics steps with the controller's current reference.

        The first half of the first step (``mj_step1`` or ``mj_forward``) must already have run.

        Returns:
            (6,) sum of the wrist sensor's readings over the ticks. The next call reuses the array.
        """
        self._wrench[:] = 0.0
        self._servo.gripper_target = self._controller.gripper_target
        self._run(self._servo, *self._addresses, ticks, self._wrench.ctypes.data)
        return self._wrench


class NativePredictor:
    """A runner of predictions in C++.

    Args:
        model: model of the simulation.
        data: state of the model.
        indices: ``positions``, ``dofs`` and ``motors`` (n,) of the joints.
        limits: largest torques (n,).

    Raises:
        NativeBuildError: if :func:`available` is false.
    """

    def __init__(
        self, model: Any, data: Any, indices: dict[str, NDArray[np.int_]], limits: NDArray[np.float64]
    ) -> None:
        self._run = _library().robo_rl_predict
        self._model, self._data = model, data  # keeps the memory alive
        self._indices = {name: np.ascontiguousarray(value, np.int32) for name, value in indices.items()}
        self._limits = np.ascontiguousarray(limits, np.float64)

    def run(
        self, stiffness: NDArray[np.float64], damping: NDArray[np.float64], pull: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return joint positions (ticks, n) after each tick.

        Args:
            stiffness: stiffness of the joints (n,).
            damping: damping of the joints (n,).
            pull: torques (ticks, n) that follow from the reference.
        """
        ticks, joints = pull.shape
        positions = np.empty((ticks, joints))
        arrays: dict[str, NDArray[Any]] = {
            "stiffness": stiffness,
            "damping": damping,
            "limits": self._limits,
            **self._indices,
        }
        arrays |= {name: np.ascontiguousarray(arrays[name], np.float64) for name in ("stiffness", "damping")}
        pull = np.ascontiguousarray(pull, np.float64)
        law = _Prediction(joints, ticks, **{name: array.ctypes.data for name, array in arrays.items()})
        self._run(law, self._model._address, self._data._address, pull.ctypes.data, positions.ctypes.data)
        return positions
