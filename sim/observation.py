"""Observations of an arm: names, order, units and noise of the elements of ``state`` and ``object``."""

from collections.abc import Mapping, Sequence

import mujoco
import numpy as np
from numpy.typing import NDArray

from robo_rl.core import ArraySpec, ConfigError, shortest

from .config import ArmConfig
from .gripper import finger_strokes

Array = NDArray[np.float64]

NOISE: dict[str, float] = {
    "joint_positions": 0.0005,
    "joint_velocities": 0.01,
    "position": 0.001,
    "orientation": 0.002,
    "linear_velocity": 0.005,
    "angular_velocity": 0.02,
    "wrist_force": 0.2,
    "wrist_torque": 0.02,
    "gripper_opening": 0.002,
    "object": 0.002,
}
"""Standard deviation of typical sensor noise by group, in the group's units (``object``: for every element)."""


class ArmState:
    """The proprioception of an arm: the observation key ``state``.

    The elements in order: joint positions [rad], those of endless joints in [-pi, pi); joint velocities [rad/s]; of the
    end effector, in the base frame: position [m], orientation as the first two columns of its rotation matrix (Zhou et
    al. 2019), linear [m/s] and angular velocity [rad/s]; in the wrist sensor's frame: force [N] and torque [Nm] that
    the world exerts on the hand, without the hand's own weight; the gripper's opening, 0 (closed) to 1 (open), if there
    is a gripper.

    Attributes:
        groups: number of elements of each group.
        names: names of all elements.
        finger_strokes: closed and open position (k, 2) of each finger joint [m or rad].
        wrench_addresses: indices (6,) of force and torque in ``data.sensordata``.
    """

    def __init__(self, model: mujoco.MjModel, arm: ArmConfig) -> None:
        self._model = model
        joints = [model.joint(name) for name in arm.joints]
        self._qpos = np.array([joint.qposadr[0] for joint in joints])
        self._dofs = np.array([joint.dofadr[0] for joint in joints])
        self._site = model.site(arm.end_effector).id
        first = [model.sensor(name).adr[0] for name in ("wrist_force", "wrist_torque")]
        self.wrench_addresses = np.concatenate([np.arange(adr, adr + 3) for adr in first])
        self._wrist = int(model.sensor("wrist_force").objid[0])
        self._hand = int(model.site_bodyid[self._wrist])
        fingers = [model.joint(name) for name in arm.gripper_joints] if arm.gripper_actuator is not None else []
        self._fingers = np.array([joint.qposadr[0] for joint in fingers], dtype=int)
        self.finger_strokes = finger_strokes(model, arm)
        self._finger_closed = self.finger_strokes[:, 0]
        self._finger_travel = self.finger_strokes[:, 1] - self._finger_closed
        self._endless = endless(model, arm.joints)
        self._velocity = np.empty(6)
        self._moment = np.empty(3)
        axes = ("x", "y", "z")
        named = {
            "joint_positions": [f"{name}_position" for name in arm.joints],
            "joint_velocities": [f"{name}_velocity" for name in arm.joints],
            "position": [f"end_effector_{axis}" for axis in axes],
            "orientation": [f"end_effector_r{row}{column}" for column in (1, 2) for row in (1, 2, 3)],
            "linear_velocity": [f"end_effector_v{axis}" for axis in axes],
            "angular_velocity": [f"end_effector_w{axis}" for axis in axes],
            "wrist_force": [f"wrist_force_{axis}" for axis in axes],
            "wrist_torque": [f"wrist_torque_{axis}" for axis in axes],
        }
        if fingers:
            named["gripper_opening"] = ["gripper_opening"]
        self.groups = {group: len(names) for group, names in named.items()}
        self.names = tuple(name for names in named.values() for name in names)

    def position(self, data: mujoco.MjData) -> Array:
        """Return the end effector's position (3,) in the base frame [m]."""
        position: Array = data.site_xpos[self._site].copy()
        return position

    def rotation(self, data: mujoco.MjData) -> Array:
        """Return the end effector's rotation matrix (3, 3) in the base frame."""
        rotation: Array = data.site_xmat[self._site].reshape(3, 3).copy()
        return rotation

    def opening(self, data: mujoco.MjData) -> float:
        """Return the gripper's opening: 0 closed, 1 open."""
        openings: Array = (data.qpos[self._fingers] - self._finger_closed) / self._finger_travel
        return float(openings.sum()) / openings.size

    def read(self, data: mujoco.MjData) -> Array:
        """Return all elements (n,)."""
        mujoco.mj_objectVelocity(self._model, data, mujoco.mjtObj.mjOBJ_SITE, self._site, self._velocity, 0)
        angular, linear = self._velocity[:3], self._velocity[3:]
        force, torque = self.wrench(data)
        parts = [
            shortest(data.qpos[self._qpos], self._endless),
            data.qvel[self._dofs],
            data.site_xpos[self._site],
            data.site_xmat[self._site].reshape(3, 3)[:, :2].T.ravel(),
            linear,
            angular,
            force,
            torque,
        ]
        if self._fingers.size:
            parts.append(np.array([self.opening(data)]))
        return np.concatenate(parts)

    def wrench(self, data: mujoco.MjData) -> tuple[Array, Array]:
        """Return force (3,) [N] and torque (3,) [Nm] of the world on the hand, in the sensor's frame.

        At rest, the weight of the hand is not in them.
        """
        frame = data.site_xmat[self._wrist].reshape(3, 3)
        weight = frame.T @ (self._model.body_subtreemass[self._hand] * self._model.opt.gravity)
        arm = frame.T @ (data.subtree_com[self._hand] - data.site_xpos[self._wrist])
        # MuJoCo measures what the arm exerts on the hand: at rest, the opposite of the hand's weight and the world's
        # force.
        reaction = -data.sensordata[self.wrench_addresses]
        mujoco.mju_cross(self._moment, arm, weight)  # five times as fast as numpy's
        return reaction[:3] - weight, reaction[3:] - self._moment


def endless(model: mujoco.MjModel, joints: Sequence[str]) -> NDArray[np.bool_]:
    """Return which joints (n,) are hinges without limits.

    Raises:
        ConfigError: if a slide has no limits, since positions that a task can use are then unknown.
    """
    limitless = [name for name in joints if not model.joint(name).limited[0]]
    for name in limitless:
        if model.joint(name).type[0] == int(mujoco.mjtJoint.mjJNT_SLIDE):
            raise ConfigError(
                f"arm.joints: the slide {name!r} has no range, so its travel is unknown; "
                "add a range to its joint in the file of arm.model"
            )
    return np.array([name in limitless for name in joints], bool)


def object_spec(state: Mapping[str, Array]) -> ArraySpec:
    """Return the spec of ``object``: the concatenated vectors of a task."""
    names: list[str] = []
    for name, value in state.items():
        size = np.atleast_1d(value).size
        suffixes = [""] if size == 1 else ["_x", "_y", "_z"] if size == 3 else [f"_{i}" for i in range(size)]
        names += [name + suffix for suffix in suffixes]
    return ArraySpec(shape=(len(names),), names=tuple(names))


def flatten(state: Mapping[str, Array]) -> Array:
    """Return the named vectors, concatenated."""
    return np.concatenate([value if value.ndim else value[None] for value in state.values()], dtype=np.float64)
