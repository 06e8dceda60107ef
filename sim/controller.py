"""The base class of controllers of a simulated arm, which convert actions into joint torques, and the end effector's.

Every controller compensates gravity and Coriolis forces, keeps joints inside their limits, and limits torques and their
rates. The code of each tick writes into preallocated buffers.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from robo_rl.core import shortest

from .config import ArmConfig, ControllerConfig
from .observation import endless
from .way_home import Way, end_frame, kept_offset

Array = NDArray[np.float64]

IDENTITY = np.eye(3)
AXIS_NAMES = ("x", "y", "z", "roll", "pitch", "yaw")

LIMIT_MARGIN = 0.15
"""Distance from a joint's limits that no reference enters [rad]. Inside it, joints are pushed back."""
LIMIT_APPROACH = 8.0
"""Speed allowed towards that margin per distance from it [1/s]."""
BRAKING = 2.0
"""Braking torque per excess speed, as a multiple of the joint's torque limit [s/rad]."""


class Controller(ABC):
    """Base class of an arm's controllers. ``command`` takes an action, ``tick`` writes torques into ``data.ctrl``.

    Before ``tick``, the position and velocity stages of the physics (``mj_step1``) must have run for the current state.

    Attributes:
        action_names: one name for each element of an action.
        gripper: index of the gripper's actuator; None without a gripper.
    """

    def __init__(self, model: mujoco.MjModel, arm: ArmConfig, config: ControllerConfig) -> None:
        self._model = model
        self._config = config
        joints = [model.joint(name) for name in arm.joints]
        self._qpos = selection([joint.qposadr[0] for joint in joints])
        self._dofs = selection([joint.dofadr[0] for joint in joints])
        self._motors = selection([model.actuator(f"torque_{name}").id for name in arm.joints])
        n = len(joints)
        limited = np.array([bool(joint.limited[0]) for joint in joints])
        ranges = np.array([joint.range for joint in joints])
        margin = np.minimum(LIMIT_MARGIN, 0.25 * (ranges[:, 1] - ranges[:, 0]))
        self._endless = endless(model, arm.joints)
        self.lower = np.where(limited, ranges[:, 0] + margin, -np.pi)
        self.upper = np.where(limited, ranges[:, 1] - margin, np.pi)
        self._soft_lower = np.where(limited, self.lower, -np.inf)
        self._soft_upper = np.where(limited, self.upper, np.inf)
        self._braking = BRAKING * np.array(arm.torque_limits, np.float64)
        self._top_speed = np.array(arm.velocity_limits, np.float64)
        self._lowest_speed = -self._top_speed
        self._top_torque = np.array(arm.torque_limits, np.float64)
        self._home = np.array(arm.home, np.float64)
        self._nominal_home = self._home.copy()
        self._largest_change = config.torque_rate_limit * model.opt.timestep

        self.gripper = None if arm.gripper_actuator is None else model.actuator(arm.gripper_actuator).id
        self._gripper_closed = arm.gripper_closed
        self._gripper_stroke = arm.gripper_open - arm.gripper_closed
        self._home_opening = arm.home_opening
        self._opening = arm.home_opening
        self._commands_gripper = config.moves_gripper and self.gripper is not None
        self.action_names = self._arm_action_names(arm) + (("gripper",) if self._commands_gripper else ())

        self._torque = np.empty(n)
        self._previous = np.zeros(n)
        self._scratch = np.empty(n)
        self._bound = np.empty(n)

    @abstractmethod
    def _arm_action_names(self, arm: ArmConfig) -> tuple[str, ...]: ...

    @abstractmethod
    def _begin(self, data: mujoco.MjData) -> None:
        """Take the current pose as reference."""

    @abstractmethod
    def _set_reference(self, data: mujoco.MjData, action: Array) -> None: ...

    @abstractmethod
    def _servo(self, data: mujoco.MjData, position: Array, velocity: Array) -> None:
        """Write the torques that pull towards the reference to ``self._torque``."""

    @property
    def gripper_target(self) -> float:
        """The command for the gripper's actuator, in its units."""
        return self._gripper_closed + self._opening * self._gripper_stroke

    def reset(self, data: mujoco.MjData) -> None:
        """Begin an episode: hold the current pose, as after a long rest."""
        self._opening = self._home_opening
        self._previous[:] = data.qfrc_bias[self._dofs]
        self._begin(data)

    def hold(self, data: mujoco.MjData) -> None:
        """Pull towards the measured pose from now on. The gripper keeps its command."""
        self._begin(data)

    def state(self) -> Array:
        """Return the state that ``hold`` does not change: the gripper's opening and the last torques."""
        return np.array([self._opening, *self._previous])

    def load(self, state: Array) -> None:
        """Restore a state that :meth:`state` returned."""
        self._opening = float(state[0])
        self._previous[:] = state[1:]

    def set_opening(self, opening: float) -> None:
        """Move the gripper to ``opening``: 0 closed to 1 open."""
        self._opening = min(max(opening, 0.0), 1.0)

    def command(self, data: mujoco.MjData, action: NDArray[np.float32]) -> None:
        """Set the reference from ``action`` (A,) in [-1, 1] and the measured state."""
        values = action.astype(np.float64)
        if self._commands_gripper:
            self._opening = (1.0 - float(values[-1])) / 2
            values = values[:-1]
        self._set_reference(data, values)

    def tick(self, data: mujoco.MjData) -> None:
        """Write one tick's torques [Nm] and the gripper's target into ``data.ctrl``."""
        torque, scratch, bound = self._torque, self._scratch, self._bound
        position, velocity = data.qpos[self._qpos], data.qvel[self._dofs]
        self._servo(data, position, velocity)
        torque += data.qfrc_bias[self._dofs]

        # Speed above the bounds from position and velocity limits is braked.
        np.subtract(self._soft_upper, position, out=scratch)
        scratch *= LIMIT_APPROACH
        np.minimum(scratch, self._top_speed, out=scratch)
        np.minimum(velocity, scratch, out=bound)
        np.subtract(self._soft_lower, position, out=scratch)
        scratch *= LIMIT_APPROACH
        np.maximum(scratch, self._lowest_speed, out=scratch)
        np.maximum(bound, scratch, out=bound)
        bound -= velocity
        bound *= self._braking
        torque += bound

        # Rates are limited first: torques inside their limits stay inside.
        np.subtract(torque, self._previous, out=scratch)
        np.minimum(scratch, self._largest_change, out=scratch)
        np.maximum(scratch, -self._largest_change, out=scratch)
        np.add(self._previous, scratch, out=torque)
        np.minimum(torque, self._top_torque, out=torque)
        np.maximum(torque, -self._top_torque, out=torque)
        self._previous[:] = torque
        data.ctrl[self._motors] = torque
        if self.gripper is not None:
            data.ctrl[self.gripper] = self.gripper_target


class EndEffectorController(Controller):
    """Operational-space impedance (Khatib 1987) with a clipped pose error, as in SERL (Luo et al. 2024).

    torque = J^T (K clip(e) - D v) + N^T (k (q_home - q) - d q') + gravity and Coriolis,

    with the dynamically consistent null-space projector N, so that the posture disturbs the end effector neither at
    rest nor in motion. The contact force at rest is at most K times clip, for each axis.
    """

    def __init__(self, model: mujoco.MjModel, arm: ArmConfig, config: ControllerConfig) -> None:
        super().__init__(model, arm, config)
        n, nv = len(arm.joints), model.nv
        self.site: int = model.site(arm.end_effector).id
        self._stiffness = np.array(config.stiffness, np.float64)
        self._damping = np.array(config.damping, np.float64)
        self._clip = np.array(config.error_clip, np.float64)
        self._low = np.array(config.workspace_low, np.float64)
        self._high = np.array(config.workspace_high, np.float64)
        moved = np.array(config.moved_axes(), dtype=int)
        scales = np.array([config.translation_scale] * 3 + [config.rotation_scale] * 3)
        self._moved = moved
        self._scales = scales[moved]
        self._moves = np.isin(np.arange(6), moved)
        self._local = config.action_frame == "end_effector"
        self._in_motion = (False, False)  # whether the last action had translation and rotation
        self._plan_way: Callable[[Way], Array] | None = None
        self._largest_pull = math.inf, math.inf
        self._left = np.zeros(0)  # share of the way home that each of the next actions leaves of its rest
        self._way_frame = IDENTITY
        self._pulled = [False, False]  # whether a part of the way home is left, of the same two

        home = mujoco.MjData(model)
        home.qpos[self._qpos] = self._home
        mujoco.mj_kinematics(model, home)
        self._home_position = home.site_xpos[self.site].copy()
        self._home_rotation: Array = home.site_xmat[self.site].reshape(3, 3).copy()

        self.reference_position = self._home_position.copy()
        self.reference_quaternion = np.array([1.0, 0, 0, 0])
        self._jacobian = np.empty((6, nv))
        self._linear, self._angular = self._jacobian[:3], self._jacobian[3:]
        self._responses = np.empty((6, nv))
        self._mobility = np.empty((6, 6))
        self._error = np.empty(6)
        self._wrench = np.empty(6)
        self._six = np.empty(6)
        self._quaternion = np.empty(4)
        self._posture = np.empty(n)

    def _arm_action_names(self, arm: ArmConfig) -> tuple[str, ...]:
        return tuple(AXIS_NAMES[axis] for axis in self._config.moved_axes())

    def _begin(self, data: mujoco.MjData) -> None:
        self._in_motion, self._pulled = (True, True), [False, False]
        self.reference_position[:] = data.site_xpos[self.site]
        mujoco.mju_mat2Quat(self.reference_quaternion, data.site_xmat[self.site])
        if self._plan_way is None:  # otherwise the first action begins the way home
            self._set_reference(data, np.zeros(len(self._moved)))
            return
        rotation = data.site_xmat[self.site].reshape(3, 3)
        offsets = self.reference_position - self._home_position, logarithm(rotation @ self._home_rotation.T)
        self._way_frame = (
            end_frame(rotation, self._home_rotation, offsets[1], self._moves[3:]) if self._local else IDENTITY
        )
        home = self._home_position, self._home_rotation
        self._left = self._plan_way(Way(home, *offsets, self._way_frame, self._moves))

    def _set_reference(self, data: mujoco.MjData, action: Array) -> None:
        if self._endless.any():  # the posture is pulled home the shorter way round
            position = data.qpos[self._qpos]
            self._home[:] = position + shortest(self._nominal_home - position, self._endless)
        delta = np.zeros(6)
        delta[self._moved] = self._scales * action
        rotation = data.site_xmat[self.site].reshape(3, 3)
        frame = rotation if self._local else IDENTITY
        shift, turn = (frame @ delta[:3], frame @ delta[3:]) if self._local else (delta[:3], delta[3:])
        moves = bool(shift.any()), bool(turn.any())
        # A second zero action keeps the reference of the first, so that a load does not make the resting arm creep. The
        # way home begins at the last reference for the same reason.
        measures = moves[0] or self._in_motion[0], moves[1] or self._in_motion[1]
        still = self._way_frame if self._left.size else frame  # of the axes that actions do not move
        left, self._left = float(self._left[0]) if self._left.size else 0.0, self._left[1:]
        if measures[0] or self._pulled[0]:
            before = self.reference_position - self._home_position
            offset = data.site_xpos[self.site] - self._home_position if measures[0] else before
            kept, self._pulled[0] = kept_offset(offset, before, still, self._moves[:3], left, self._largest_pull[0])
            start = self._home_position + kept
            # From outside the workspace, the way back along each axis is no longer than the action.
            low = np.minimum(self._low, start + np.abs(shift))
            high = np.maximum(self._high, start - np.abs(shift))
            np.clip(start + shift, low, high, out=self.reference_position)
        if measures[1] or self._pulled[1]:
            reference = self._reference_rotation(rotation if measures[1] else None, still, turn, left)
            mujoco.mju_mat2Quat(self.reference_quaternion, reference.ravel())
        self._in_motion = moves

    def _reference_rotation(self, rotation: Array | None, frame: Array, turn: Array, left: float) -> Array:
        """Turn an orientation, None for the last reference, by ``turn`` (base frame). Axes not moved stay at home."""
        moves = self._moves[3:]
        if rotation is not None and moves.all():
            turned: Array = exponential(turn) @ rotation
            return turned
        if not moves.any() and not left:
            self._pulled[1] = False
            return self._home_rotation
        matrix = np.empty(9)
        mujoco.mju_quat2Mat(matrix, self.reference_quaternion)
        before = logarithm(matrix.reshape(3, 3) @ self._home_rotation.T)
        offset = before if rotation is None else logarithm(rotation @ self._home_rotation.T)
        kept, self._pulled[1] = kept_offset(offset, before, frame, moves, left, self._largest_pull[1])
        turned = exponential(turn) @ exponential(kept) @ self._home_rotation
        return turned

    def plan_way_home(self, plan: Callable[[Way], Array], shift: float, turn: float) -> None:
        """Go home along axes that actions do not move as ``plan`` says, from the next beginning of an episode on.

        References along these axes are at home otherwise, however far the arm is from it: the clipped error of this
        controller bounds what becomes of that, but that of a robot need not. The way home is that of the references,
        not of the arm, which a load may keep from following.

        Args:
            plan: returns for a way the share of its rest that each of the next actions leaves (m,).
            shift: largest part of the way in one action [m]. Actions that turn the end effector in its own frame, or
                move it there, lengthen the way.
            turn: the same of the rotation [rad].
        """
        self._plan_way, self._largest_pull = plan, (shift, turn)

    def set_reference(self, data: mujoco.MjData, position: Array, rotation: Array) -> None:
        """Pull towards a pose: ``position`` (3,) [m] and ``rotation`` (3, 3), both in the base frame.

        The position is clipped to the workspace. An end effector that is measured outside it goes no further out, but
        need not come back at once.
        """
        measured = data.site_xpos[self.site]
        low, high = np.minimum(self._low, measured), np.maximum(self._high, measured)
        np.clip(position, low, high, out=self.reference_position)
        mujoco.mju_mat2Quat(self.reference_quaternion, np.ascontiguousarray(rotation).ravel())

    def _servo(self, data: mujoco.MjData, position: Array, velocity: Array) -> None:
        error, six = self._error, self._six
        mujoco.mj_jacSite(self._model, data, self._linear, self._angular, self.site)
        jacobian = self._jacobian[:, self._dofs]

        np.subtract(self.reference_position, data.site_xpos[self.site], out=error[:3])
        attitude = data.site_xmat[self.site]
        mujoco.mju_mat2Quat(self._quaternion, attitude)
        mujoco.mju_subQuat(six[:3], self.reference_quaternion, self._quaternion)
        np.dot(attitude.reshape(3, 3), six[:3], out=error[3:])
        np.minimum(error, self._clip, out=error)
        np.maximum(error, -self._clip, out=error)

        wrench = self._wrench
        np.multiply(self._stiffness, error, out=wrench)
        np.dot(jacobian, velocity, out=six)
        six *= self._damping
        wrench -= six
        wrench -= self._posture_disturbance(data, position, velocity)
        np.dot(wrench, jacobian, out=self._torque)
        self._torque += self._posture

    def native_parts(self) -> tuple[dict[str, NDArray[np.intp]], dict[str, Array], dict[str, float]]:
        """Return indices, arrays (not copies) and numbers that ``tick`` uses, by their names in native/servo.cpp."""
        config, all_indices = self._config, np.arange(max(self._model.nq, self._model.nu))
        indices = {
            "positions": all_indices[self._qpos],
            "dofs": all_indices[self._dofs],
            "motors": all_indices[self._motors],
        }
        arrays = {
            "lower": self._soft_lower,
            "upper": self._soft_upper,
            "braking": self._braking,
            "top_speed": self._top_speed,
            "top_torque": self._top_torque,
            "home": self._home,
            "stiffness": self._stiffness,
            "damping": self._damping,
            "clip": self._clip,
            "reference_position": self.reference_position,
            "reference_quaternion": self.reference_quaternion,
            "previous": self._previous,
        }
        numbers = {
            "limit_approach": LIMIT_APPROACH,
            "largest_change": self._largest_change,
            "posture_stiffness": config.nullspace_stiffness,
            "posture_damping": config.nullspace_damping,
        }
        return indices, arrays, numbers

    def _posture_disturbance(self, data: mujoco.MjData, position: Array, velocity: Array) -> Array:
        """Write the posture's torques into ``self._posture``; return the wrench (6,) that they would exert."""
        posture = self._posture
        np.subtract(self._home, position, out=posture)
        posture *= self._config.nullspace_stiffness
        np.multiply(velocity, self._config.nullspace_damping, out=self._scratch)
        posture -= self._scratch
        # Rows of J M^-1; with them A = J M^-1 J^T, and A^-1 (J M^-1 posture) is the wrench to subtract.
        mujoco.mj_solveM(self._model, data, self._responses, self._jacobian)
        responses = self._responses[:, self._dofs]
        np.dot(responses, self._jacobian[:, self._dofs].T, out=self._mobility)
        np.dot(responses, posture, out=self._six)
        mujoco.mju_cholFactor(self._mobility, 1e-4)
        mujoco.mju_cholSolve(self._six, self._mobility, self._six)
        return self._six


def selection(indices: list[int]) -> Any:
    """Return an index for ``indices``: a slice, which makes no copy, if they are consecutive."""
    first, last = int(indices[0]), int(indices[-1])
    consecutive = [int(index) for index in indices] == list(range(first, last + 1))
    return slice(first, last + 1) if consecutive else np.array(indices)


def exponential(vector: Array) -> Array:
    """Return the rotation matrix (3, 3) of a rotation vector (3,) [rad]."""
    quaternion, matrix = np.empty(4), np.empty(9)
    angle = float(np.linalg.norm(vector))
    axis = vector / angle if angle > 0 else np.array([1.0, 0, 0])
    mujoco.mju_axisAngle2Quat(quaternion, axis, angle)
    mujoco.mju_quat2Mat(matrix, quaternion)
    return matrix.reshape(3, 3)


def logarithm(rotation: Array) -> Array:
    """Return the rotation vector (3,) [rad] of a rotation matrix (3, 3)."""
    quaternion, vector = np.empty(4), np.empty(3)
    mujoco.mju_mat2Quat(quaternion, np.ascontiguousarray(rotation).ravel())
    mujoco.mju_quat2Vel(vector, quaternion, 1.0)
    return vector
