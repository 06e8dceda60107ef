"""Positions of a gripper's fingers when it is closed and when it is open."""

import mujoco
import numpy as np
from numpy.typing import NDArray

from robo_rl.core import ConfigError

from .config import ArmConfig

Array = NDArray[np.float64]


def finger_strokes(model: mujoco.MjModel, arm: ArmConfig) -> Array:
    """Return the closed and the open position (k, 2) of each finger joint [m or rad]; k is 0 without a gripper.

    The positions are the ends of the joint's range. Which of them is open follows from ``gripper_open`` and
    ``gripper_closed`` and from the direction in which the actuator moves the finger: directly, by a tendon, or by an
    equality with another finger. By default, a finger moves in the direction of the control value.

    Raises:
        ConfigError: if a finger has no range.
    """
    names = tuple(arm.gripper_joints) if arm.gripper_actuator is not None else ()
    rises = _directions(model, arm.gripper_actuator) if names else {}
    strokes = np.empty((len(names), 2))
    for stroke, name in zip(strokes, names, strict=True):
        joint = model.joint(name)
        if not joint.limited[0]:
            raise ConfigError(
                f"arm.gripper_joints: the finger {name!r} has no range, so its open and closed positions "
                "are unknown; add a range to its joint in the file of arm.model"
            )
        low, high = joint.range
        opens_up = (arm.gripper_open > arm.gripper_closed) == (rises.get(int(joint.id), 1.0) > 0)
        stroke[:] = (low, high) if opens_up else (high, low)
    return strokes


def _directions(model: mujoco.MjModel, actuator: str | None) -> dict[int, float]:
    """Return whether joints rise (positive) or fall with an actuator's control value, by joint id."""
    data = mujoco.MjData(model)
    mujoco.mj_fwdPosition(model, data)
    number = model.actuator(actuator).id
    moments = np.zeros((model.nu, model.nv))
    moment = data.actuator_moment.reshape(-1, 1)
    structure = (part.reshape(-1, 1) for part in (data.moment_rownnz, data.moment_rowadr, data.moment_colind))
    mujoco.mju_sparse2dense(moments, moment, *structure)
    # A position servo with a negative gain shortens when its control value rises.
    sign = -1.0 if model.actuator_gainprm[number, 0] < 0 else 1.0
    rises = {
        int(model.dof_jntid[dof]): sign * float(np.sign(moments[number, dof]))
        for dof in np.flatnonzero(moments[number])
    }
    couplings = [
        (int(model.eq_obj1id[index]), int(model.eq_obj2id[index]), float(np.sign(model.eq_data[index, 1])))
        for index in np.flatnonzero(model.eq_type == int(mujoco.mjtEq.mjEQ_JOINT))
    ]
    for _ in couplings:  # a chain of couplings is at most as long as their number
        for first, second, slope in couplings:
            for source, target in ((first, second), (second, first)):
                if source in rises and target >= 0 and slope:
                    rises.setdefault(target, slope * rises[source])
    return rises
