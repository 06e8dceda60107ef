"""Bounds on how fast the distance of two geoms changes, by joint motion and by displacements of the end effector."""

import math

import mujoco
import numpy as np
from numpy.typing import NDArray

from robo_rl.core import RobotDescription

Array = NDArray[np.float64]

LONGEST = 1e3
"""Lever of a joint that nothing else bounds [m/rad]."""


def joint_levers(robot: RobotDescription, pairs: list[tuple[int, int]]) -> Array:
    """Return (pairs, n): the largest change of the distance of two geoms by a unit of each joint [m/rad].

    A hinge that moves one of the two geoms moves its points by no more than their distance from the hinge's axis. That
    is at most the way along the links, from hinge to hinge and on to the farthest point of the geom.
    """
    model = robot.model
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    joints = [int(model.joint(name).id) for name in robot.joints]

    def lever_arms(geom: int) -> dict[int, float]:
        arms, body = {}, int(model.geom_bodyid[geom])
        point = data.geom_xpos[geom]
        length = float(model.geom_rbound[geom]) or math.inf  # planes have no bounding radius
        while body > 0:
            first = int(model.body_jntadr[body])
            for joint in reversed(range(first, first + int(model.body_jntnum[body]))):
                if model.jnt_type[joint] == int(mujoco.mjtJoint.mjJNT_SLIDE):
                    reference = model.qpos0[model.jnt_qposadr[joint]]  # the position at which it is not displaced
                    ends = np.abs(model.jnt_range[joint] - reference)
                    span = ends.max() if model.jnt_limited[joint] else math.inf
                    arms[joint], length = 1.0, length + float(span)
                    continue
                length += math.dist(point, data.xanchor[joint])
                point = data.xanchor[joint]
                arms[joint] = length
            body = int(model.body_parentid[body])
        return arms

    moved = {geom: lever_arms(geom) for pair in pairs for geom in pair}
    rows = [
        # A joint that moves both geoms does not change their distance.
        [
            0.0 if joint in first_arms and joint in second_arms else first_arms.get(joint, second_arms.get(joint, 0.0))
            for joint in joints
        ]
        for first_arms, second_arms in ((moved[first], moved[second]) for first, second in pairs)
    ]
    return np.asarray(np.minimum(np.array(rows).reshape(-1, len(joints)), LONGEST))


def shift_shares(robot: RobotDescription, pairs: list[tuple[int, int]]) -> Array:
    """Return (pairs,): the largest change of the distance of two geoms by a unit of the end effector's displacement.

    The unit is one of the length of all six elements of the displacement [m, rad]. The change is infinite unless one
    geom is fixed to the end effector and the other to the world.
    """
    model = robot.model
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    site = model.site(robot.end_effector).id
    welded = model.body_weldid[model.geom_bodyid].tolist()
    fixed = int(model.body_weldid[model.site_bodyid[site]])

    def share(first: int, second: int) -> float:
        for geom, other in ((first, second), (second, first)):
            if welded[geom] == fixed and welded[other] == 0 and model.geom_rbound[geom]:
                # A point moves by at most |v| + r |w|, which is at most sqrt(1 + r^2) times the length of (v, w).
                radius = math.dist(data.geom_xpos[geom], data.site_xpos[site]) + float(model.geom_rbound[geom])
                return math.hypot(1.0, radius)
        return math.inf

    return np.array([share(*pair) for pair in pairs])
