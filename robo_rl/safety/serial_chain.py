"""The serial chain of joints that moves an end effector, taken from a MuJoCo model."""

import math
from dataclasses import dataclass

import mujoco
import numpy as np
from numpy.typing import NDArray

from robo_rl.core import ConfigError, RobotDescription

Array = NDArray[np.float64]


@dataclass(frozen=True)
class SerialChain:
    """Joints from the base outwards. Each joint has a frame; the joint turns about, or moves along, the frame's z axis.

    Joints of the model that are not the robot's stay at their reference position.

    Attributes:
        order: index of the i-th joint of the chain in the robot's list (n,).
        slides: whether that joint is a slide; otherwise it is a hinge (n,).
        offsets: translation to the joint's frame from that of the joint before, which moves with that joint (n, 3) [m].
        rotations: rotation to the joint's frame (n, 3, 3).
        references: joint position at which the model is as its file describes it (n,) [rad or m].
        tool_offset: position of the end effector in the frame of the last joint (3,) [m].
        tool_rotation: rotation of the end effector in that frame (3, 3).
    """

    order: NDArray[np.int32]
    slides: NDArray[np.int32]
    offsets: Array
    rotations: Array
    references: Array
    tool_offset: Array
    tool_rotation: Array

    def forward(self, joints: Array) -> tuple[Array, Array, Array]:
        """Return the end effector's position (3,), rotation (3, 3) and Jacobian (6, n) in the base frame.

        Args:
            joints: positions (n,) in the robot's order [rad or m].
        """
        position, rotation = np.zeros(3), np.eye(3)
        frames = []
        for i, number in enumerate(self.order):
            position, rotation = position + rotation @ self.offsets[i], rotation @ self.rotations[i]
            axis, value = rotation[:, 2], joints[number] - self.references[i]
            if self.slides[i]:
                position = position + value * axis
            else:
                rotation = rotation @ _rotation_about_z(value)
            frames.append((axis, position))
        position, rotation = position + rotation @ self.tool_offset, rotation @ self.tool_rotation
        jacobian = np.zeros((6, len(joints)))
        for i, number in enumerate(self.order):
            axis, origin = frames[i]
            if self.slides[i]:
                jacobian[:3, number] = axis
            else:
                jacobian[:3, number], jacobian[3:, number] = np.cross(axis, position - origin), axis
        return position, rotation, jacobian


def serial_chain(robot: RobotDescription) -> SerialChain:
    """Return the chain from the base of ``robot`` to its end effector.

    Raises:
        ConfigError: if a joint is neither a hinge nor a slide, or does not move the end effector.
    """
    model = robot.model
    site = model.site(robot.end_effector).id
    bodies = [int(model.site_bodyid[site])]
    while bodies[0] > 0:
        bodies.insert(0, int(model.body_parentid[bodies[0]]))
    numbers = {int(model.joint(name).id): number for number, name in enumerate(robot.joints)}
    order, rows = [], []
    offset, rotation = np.zeros(3), np.eye(3)
    for body in bodies:
        offset = offset + rotation @ model.body_pos[body]
        rotation = rotation @ _matrix(model.body_quat[body])
        first = int(model.body_jntadr[body])
        for joint in range(first, first + int(model.body_jntnum[body])):
            if joint not in numbers:
                continue
            kind = int(model.jnt_type[joint])
            if kind not in (int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE)):
                raise ConfigError(f"arm.joints: {robot.joints[numbers[joint]]!r} is neither a hinge nor a slide")
            order.append(numbers.pop(joint))
            anchor, turned = model.jnt_pos[joint], _rotation_to(model.jnt_axis[joint])
            slides = kind == int(mujoco.mjtJoint.mjJNT_SLIDE)
            rows.append((slides, offset + rotation @ anchor, rotation @ turned, joint))
            offset, rotation = -turned.T @ anchor, turned.T  # back to the body's frame
    if numbers:
        names = ", ".join(repr(robot.joints[number]) for number in numbers.values())
        raise ConfigError(f"arm.joints: {names} does not move the end effector {robot.end_effector!r}")
    joints = [row[3] for row in rows]
    return SerialChain(
        order=np.array(order, np.int32),
        slides=np.array([row[0] for row in rows], np.int32),
        offsets=np.array([row[1] for row in rows]),
        rotations=np.array([row[2] for row in rows]),
        references=model.qpos0[model.jnt_qposadr[joints]].copy(),
        tool_offset=offset + rotation @ model.site_pos[site],
        tool_rotation=rotation @ _matrix(model.site_quat[site]),
    )


def _matrix(quaternion: Array) -> Array:
    matrix = np.empty(9)
    mujoco.mju_quat2Mat(matrix, quaternion)
    return matrix.reshape(3, 3)


def _rotation_to(axis: Array) -> Array:
    """Return a rotation (3, 3) that takes the z axis to ``axis``."""
    quaternion = np.empty(4)
    mujoco.mju_quatZ2Vec(quaternion, axis)
    return _matrix(quaternion)


def _rotation_about_z(angle: float) -> Array:
    sine, cosine = math.sin(angle), math.cos(angle)
    return np.array([[cosine, -sine, 0.0], [sine, cosine, 0.0], [0.0, 0.0, 1.0]])
