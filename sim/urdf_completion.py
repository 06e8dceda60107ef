"""Additions to the model of a URDF file: coupled joints, armature, servo of the gripper, contacts that do not count."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import mujoco
import numpy as np

VISUAL_GROUP, HIDDEN_GROUP = 2, 3
LEAST_ARMATURE = 0.01
"""Smallest inertia of a motor's rotor at its joint [kg m^2, or kg for slides]."""
ARMATURE_PER_EFFORT = 0.001
"""That inertia as a multiple of the effort limit: full effort accelerates a free rotor by 1000 rad/s^2."""
SERVO_SHARE = 0.1
"""Error at which the gripper's servo pushes with its full effort, as a share of the stroke."""
STROKE_SECONDS = 0.5
"""Time of a stroke, where the file has no velocity limit [s]."""
LEAST_EFFORT = 10.0
"""Effort of a gripper, where the file has none [N or Nm]."""
POSES = 200
ALWAYS = 0.95
"""Share of random poses in which two links touch that always touch."""


def add_mimic(spec: Any, name: str, other: str, factors: tuple[float, float]) -> None:
    """Make the joint ``name`` follow ``other``, with the offset [rad or m] and the multiplier in ``factors``."""
    follows = spec.add_equality(type=mujoco.mjtEq.mjEQ_JOINT, objtype=mujoco.mjtObj.mjOBJ_JOINT)
    follows.name1, follows.name2 = name, other
    follows.data[:2] = factors


def add_armature(spec: Any) -> list[str]:
    """Add the inertia of rotors, which URDF cannot state and light links need; return the assumption."""
    for joint in spec.joints:
        joint.armature = max(ARMATURE_PER_EFFORT * float(joint.actfrcrange[1]), LEAST_ARMATURE)
    return [
        f"armature: URDF has none; {ARMATURE_PER_EFFORT:g} of each effort limit, at least {LEAST_ARMATURE:g} kg m^2, "
        "is taken; robo-rl identify measures it"
    ]


def set_groups(spec: Any) -> None:
    """Show visual geometry, and collision geometry of links that have no other."""
    for body in spec.bodies:
        solid = [geom for geom in body.geoms if geom.contype]
        for geom in body.geoms:
            geom.group = HIDDEN_GROUP if geom.contype and len(solid) < len(body.geoms) else VISUAL_GROUP
    collide = {geom.meshname for geom in spec.geoms if geom.contype}
    for mesh in spec.meshes:
        if mesh.name not in collide:
            mesh.inertia = mujoco.mjtMeshInertia.mjMESH_INERTIA_SHELL  # flat and open ones have no volume


def add_gripper_servo(spec: Any, leaders: Sequence[str], velocities: Mapping[str, float]) -> list[str]:
    """Add a position servo to the joint of the gripper that all others mimic; return assumptions.

    Its stiffness gives the full effort at a tenth of the stroke, and its damping lets the error of a whole stroke move
    the joint at its velocity limit.

    Args:
        spec: the model.
        leaders: names of the gripper's joints that mimic none.
        velocities: velocity limits by joint [rad/s or m/s].
    """
    if len(leaders) > 1:
        return [
            f"gripper: {', '.join(leaders)} move independently, so actions do not move them; add "
            f'<mimic joint="{leaders[0]}"/> to the others'
        ]
    if not leaders or not spec.joint(leaders[0]).range[0] < spec.joint(leaders[0]).range[1]:
        return []
    notes = []
    joint = spec.joint(leaders[0])
    low, high = map(float, joint.range)
    effort = float(joint.actfrcrange[1])
    speed = velocities.get(joint.name, (high - low) / STROKE_SECONDS)
    if not effort:
        effort = LEAST_EFFORT
        notes.append(f"gripper: {joint.name} has no effort limit; {LEAST_EFFORT:g} N (Nm) is taken")
    stiffness = effort / (SERVO_SHARE * (high - low))
    servo = spec.add_actuator(name="gripper", target=joint.name, trntype=mujoco.mjtTrn.mjTRN_JOINT)
    servo.set_to_position(kp=stiffness, kv=stiffness * (high - low) / speed)
    servo.ctrllimited = servo.forcelimited = True
    servo.ctrlrange, servo.forcerange = (low, high), (-effort, effort)
    return notes


def exclude_touching(spec: Any) -> list[str]:
    """Ignore contacts of links that touch in the zero pose or in nearly all poses; return their names in a sentence.

    MuJoCo itself ignores the contacts of links that a joint connects, except those of the base with the first link.
    """
    try:
        model = spec.compile()
    except ValueError:
        return []  # the caller compiles the model again, and reports the reason
    data, rng = mujoco.MjData(model), np.random.default_rng(0)
    low, high = np.where(model.jnt_limited.astype(bool)[:, None], model.jnt_range, (-np.pi, np.pi)).T
    places = model.jnt_qposadr
    counts: Counter[tuple[str, str]] = Counter()
    for number in range(POSES + 1):
        pose = rng.uniform(low, high) if number else np.clip(0.0, low, high)
        for equality in range(model.neq):
            follower, leader = model.eq_obj1id[equality], model.eq_obj2id[equality]
            pose[follower] = np.polynomial.Polynomial(model.eq_data[equality, :5])(pose[leader])
        data.qpos[places] = pose
        mujoco.mj_fwdPosition(model, data)
        bodies = {tuple(sorted(map(int, model.geom_bodyid[contact.geom]))) for contact in data.contact[: data.ncon]}
        for first, second in bodies:
            always = not number or _are_connected(model, first, second)
            counts[model.body(first).name, model.body(second).name] += POSES if always else 1
    touching = [pair for pair, count in counts.items() if count >= ALWAYS * POSES and "world" not in pair]
    for pair in touching:
        spec.add_exclude(bodyname1=pair[0], bodyname2=pair[1])
    pairs = ", ".join(map(" and ".join, touching))
    return [f"contacts: {pairs} touch in the zero pose or in nearly all poses; these are ignored"] if pairs else []


def _are_connected(model: Any, *bodies: int) -> bool:
    """Return whether one joint, or nothing that moves, is between two bodies."""
    rigid = [int(model.body_weldid[body]) for body in bodies]
    above = [int(model.body_weldid[model.body_parentid[body]]) for body in rigid]
    return rigid[0] in (rigid[1], above[1]) or rigid[1] == above[0]
