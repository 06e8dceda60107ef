"""The description of a robot for safety filters, with kinematics and limits, and targets for its controller."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .options import require

HINGE = 3
"""Type of a joint in a MuJoCo model (``mjtJoint``) that turns about an axis."""


def shortest(difference: NDArray[np.float64], endless: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return differences (..., n) of joint positions; those of endless joints are wrapped to [-pi, pi).

    Args:
        difference: one position minus another [rad or m].
        endless: which joints (n,) turn without end, as in :attr:`RobotDescription.endless`.
    """
    if not endless.any():
        return difference
    return np.where(endless, np.remainder(difference + np.pi, 2 * np.pi) - np.pi, difference)


@dataclass(frozen=True)
class RobotDescription:
    """A robot with n joints. Joint values are in rad (or m), others in m, N and Nm, all in the base frame.

    Attributes:
        model: compiled MuJoCo model (``mujoco.MjModel``) of the robot and of the static objects around it. Filters make
            their own state for it; they never write to it.
        joints: names of the arm's joints in ``model``, as in the observation's elements ``<joint>_position``.
        home: joint positions (n,) at which episodes begin.
        end_effector: name of the site that actions move.
        position_lower: lower joint limits (n,).
        position_upper: upper joint limits (n,).
        command_lower: joint positions (n,) for an action of -1, if actions are joint positions.
        command_upper: joint positions (n,) for an action of 1.
        speed: largest joint speed (n,) that the arm can reach [rad/s].
        velocity: largest joint velocity (n,) that an action may request, more if controllers lag behind [rad/s].
        acceleration: largest change of that velocity (n,) [rad/s^2].
        jerk: largest change of that acceleration (n,) [rad/s^3].
        joint_delta: joint motion for an action of 1, if actions are joint deltas [rad].
        workspace_low: lower corner of the box in which the end effector works [m].
        workspace_high: upper corner [m].
        controller_holds_workspace: whether the robot's own controller clips end-effector actions to that box.
        linear_speed: largest speed of the end effector that an action may request [m/s].
        angular_speed: largest angular speed of the end effector that an action may request [rad/s].
        force: largest contact force at the wrist [N].
        torque: largest contact torque at the wrist [Nm].
        fingers: names of the gripper's joints in ``model``; empty without a gripper.
        finger_strokes: closed and open position of each of these joints [m or rad].
    """

    model: Any
    joints: tuple[str, ...]
    home: tuple[float, ...]
    end_effector: str
    position_lower: tuple[float, ...]
    position_upper: tuple[float, ...]
    command_lower: tuple[float, ...]
    command_upper: tuple[float, ...]
    speed: tuple[float, ...]
    velocity: tuple[float, ...]
    acceleration: tuple[float, ...]
    jerk: tuple[float, ...]
    joint_delta: float
    workspace_low: tuple[float, ...]
    workspace_high: tuple[float, ...]
    controller_holds_workspace: bool
    linear_speed: float
    angular_speed: float
    force: float
    torque: float
    fingers: tuple[str, ...] = ()
    finger_strokes: tuple[tuple[float, float], ...] = ()

    def __post_init__(self) -> None:
        for key in ("home", "position_lower", "position_upper", "command_lower", "command_upper"):
            require(
                len(getattr(self, key)) == len(self.joints), f"robot.{key}", "one value a joint", getattr(self, key)
            )
        for key in ("speed", "velocity", "acceleration", "jerk"):
            values = getattr(self, key)
            valid = len(values) == len(self.joints) and all(value > 0 for value in values)
            require(valid, f"robot.{key}", "one value above 0 a joint", values)

    @property
    def endless(self) -> NDArray[np.bool_]:
        """Mask (n,) of the joints that are hinges without limits: their position repeats after a full turn."""
        unlimited = np.isinf(self.position_lower) & np.isinf(self.position_upper)
        hinges = [int(self.model.joint(name).type[0]) == HINGE for name in self.joints]
        return np.asarray(unlimited & np.array(hinges), np.bool_)


@dataclass(frozen=True, slots=True)
class ArmPose:
    """The pose of an end effector, in the base frame.

    Attributes:
        position: (3,) [m].
        rotation: matrix (3, 3).
    """

    position: NDArray[np.float64]
    rotation: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class FrameTransform:
    """The pose of a frame in another one.

    Attributes:
        parent: name of the other frame.
        child: name of the frame.
        position: (3,) [m].
        rotation: matrix (3, 3).
    """

    parent: str
    child: str
    position: NDArray[np.float64]
    rotation: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ArmTarget:
    """The target of an arm's controller until the next target; at most one of the first four is set.

    Attributes:
        pose: pose of the end effector to pull towards.
        joints: joint positions (n,) to move to [rad or m].
        velocities: joint velocities (n,) [rad/s or m/s].
        efforts: joint efforts (n,) beyond gravity and Coriolis forces [Nm or N].
        opening: opening of the gripper, 0 closed to 1 open; None if actions do not move it.
    """

    pose: ArmPose | None = None
    joints: NDArray[np.float64] | None = None
    velocities: NDArray[np.float64] | None = None
    efforts: NDArray[np.float64] | None = None
    opening: float | None = None


@dataclass(frozen=True, slots=True)
class BaseTarget:
    """The target of a mobile base until the next target.

    Attributes:
        steering: share of the largest steering angle or yaw rate, -1 (right) to 1 (left).
        throttle: share of the top speed, -1 (backwards) to 1.
    """

    steering: float
    throttle: float
