"""The arm: a built-in model of the Franka Panda or the SO-101, or any MJCF file.

Kinematics, joint limits, masses and inertias of the Panda are those of the public robot description
(franka_description; inertial parameters identified by Gaz et al., RA-L 2019). Its shape is made of primitives here.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import mujoco
import numpy as np

from robo_rl.core import ConfigError, check_mjcf, nearest
from robo_rl.core.search_path import own_file

from .config import ArmConfig
from .dynamics import add_dynamics, enable_weights
from .names import rename_clashes
from .urdf import ArmFile, read_urdf

WHITE = (0.93, 0.94, 0.95, 1.0)
DARK = (0.16, 0.17, 0.19, 1.0)
ACCENT = (0.10, 0.45, 0.72, 1.0)
RUBBER = (0.08, 0.08, 0.09, 1.0)

CAPSULE = mujoco.mjtGeom.mjGEOM_CAPSULE
CYLINDER = mujoco.mjtGeom.mjGEOM_CYLINDER
BOX = mujoco.mjtGeom.mjGEOM_BOX

VISUAL_GROUP, COLLISION_GROUP = 2, 3

# The arm collides with the world but not with itself: contype without conaffinity.
COLLIDES: dict[str, Any] = {"contype": 1, "conaffinity": 0, "group": COLLISION_GROUP}
SEEN: dict[str, Any] = {"contype": 0, "conaffinity": 0, "group": VISUAL_GROUP, "mass": 0.0, "material": "shell"}


class Link(NamedTuple):
    """The frame, joint and inertia of a link.

    ``position`` [m] and ``quaternion`` (w, x, y, z) place the link's frame in its parent's. The joint turns about the
    frame's z axis within ``limits`` [rad]. ``centre`` is the centre of mass [m], and ``inertia`` is about it (xx, yy,
    zz, xy, xz, yz) [kg m^2].
    """

    position: tuple[float, ...]
    quaternion: tuple[float, ...]
    limits: tuple[float, float]
    mass: float
    centre: tuple[float, ...]
    inertia: tuple[float, ...]


H = 0.5**0.5
LINKS = (
    Link((0, 0, 0.333), (1, 0, 0, 0), (-2.8973, 2.8973), 4.970684, (0.003875, 0.002081, -0.04762),
         (0.70337, 0.70661, 0.009117, -0.000139, 0.006772, 0.019169)),
    Link((0, 0, 0), (H, -H, 0, 0), (-1.7628, 1.7628), 0.646926, (-0.003141, -0.02872, 0.003495),
         (0.007962, 0.02811, 0.025995, -0.003925, 0.010254, 0.000704)),
    Link((0, -0.316, 0), (H, H, 0, 0), (-2.8973, 2.8973), 3.228604, (0.027518, 0.039252, -0.066502),
         (0.037242, 0.036155, 0.01083, -0.004761, -0.011396, -0.012805)),
    Link((0.0825, 0, 0), (H, H, 0, 0), (-3.0718, -0.0698), 3.587895, (-0.05317, 0.104419, 0.027454),
         (0.025853, 0.019552, 0.028323, 0.007796, -0.001332, 0.008641)),
    Link((-0.0825, 0.384, 0), (H, -H, 0, 0), (-2.8973, 2.8973), 1.225946, (-0.011953, 0.041065, -0.038437),
         (0.035549, 0.029474, 0.008627, -0.002117, -0.004037, 0.000229)),
    Link((0, 0, 0), (H, H, 0, 0), (-0.0175, 3.7525), 1.666555, (0.060149, -0.014117, -0.010517),
         (0.001964, 0.004354, 0.005433, 0.000109, -0.001158, 0.000341)),
    Link((0.088, 0, 0), (H, H, 0, 0), (-2.8973, 2.8973), 0.735522, (0.010517, -0.004252, 0.061597),
         (0.012516, 0.010027, 0.004815, -0.000428, -0.001196, -0.000741)),
)  # fmt: skip

ARMATURE = 0.1
"""Inertia of a motor's rotor at its joint [kg m^2]. It is not published. It also stabilises light wrist links."""

JOINT_DAMPING = 0.5
"""Viscous friction of a joint, unknown to the controller [Nms/rad]."""

FLANGE = 0.107
HAND_YAW = -np.pi / 4
HAND_MASS, HAND_CENTRE, HAND_INERTIA = 0.73, (-0.01, 0, 0.03), (0.001, 0.0025, 0.0017)
FINGER_MASS, FINGER_INERTIA = 0.015, (2.375e-6, 2.375e-6, 7.5e-7)
FINGER_HEIGHT = 0.0584
FINGER_TRAVEL = 0.04
GRASP_POINT = 0.1034
FINGER_FORCE = 30.0
"""Largest force of one finger [N]."""
FINGER_SPEED = 0.15
"""Speed at which a free finger moves [m/s]."""

# Capsules that collide: body, ends (6) in the body's frame, radius [m].
COLLISION_CAPSULES: tuple[tuple[str, tuple[float, ...], float], ...] = (
    ("link0", (-0.08, 0, 0.06, 0.0, 0, 0.06), 0.06),
    ("link1", (0, 0, -0.19, 0, 0, 0.0), 0.06),
    ("link2", (0, 0, 0, 0, -0.2, 0), 0.06),
    ("link3", (0, 0, -0.11, 0.0825, 0, 0), 0.06),
    ("link4", (0, 0, 0, -0.0825, 0.12, 0), 0.06),
    ("link5", (0, 0, -0.26, 0, 0.05, -0.06), 0.055),
    ("link6", (0, 0, -0.06, 0.05, 0, 0), 0.05),
    ("link7", (0, 0, 0.02, 0, 0, 0.09), 0.045),
)  # fmt: skip

# Visible shapes: body, shape, ends or centre, radius, colour.
VISUALS: tuple[tuple[str, Any, tuple[float, ...], float, tuple[float, ...]], ...] = (
    ("link0", CAPSULE, (-0.11, 0, 0.035, 0.0, 0, 0.035), 0.05, WHITE),
    ("link0", CYLINDER, (0, 0, 0.0, 0, 0, 0.14), 0.075, WHITE),
    ("link0", CYLINDER, (0, 0, 0.0, 0, 0, 0.012), 0.1, DARK),
    ("link1", CYLINDER, (0, 0, -0.193, 0, 0, -0.185), 0.071, DARK),
    ("link1", CYLINDER, (0, 0, -0.185, 0, 0, -0.03), 0.066, WHITE),
    ("link1", CAPSULE, (0, -0.035, 0, 0, 0.035, 0), 0.066, WHITE),
    ("link2", CYLINDER, (0, 0, -0.075, 0, 0, 0.075), 0.052, DARK),
    ("link2", CYLINDER, (0, -0.03, 0, 0, -0.19, 0), 0.062, WHITE),
    ("link3", CYLINDER, (0, 0, -0.126, 0, 0, -0.118), 0.064, DARK),
    ("link3", CYLINDER, (0, 0, -0.118, 0, 0, -0.062), 0.062, WHITE),
    ("link3", CAPSULE, (0, 0, -0.062, 0.0825, 0, 0), 0.057, WHITE),
    ("link3", CAPSULE, (0.0825, -0.03, 0, 0.0825, 0.03, 0), 0.0575, WHITE),
    ("link4", CYLINDER, (0, 0, -0.072, 0, 0, 0.072), 0.045, DARK),
    ("link4", CAPSULE, (0, 0, 0, -0.0825, 0.075, 0), 0.053, WHITE),
    ("link4", CYLINDER, (-0.0825, 0.07, 0, -0.0825, 0.122, 0), 0.056, WHITE),
    ("link5", CYLINDER, (0, 0, -0.262, 0, 0, -0.254), 0.059, DARK),
    ("link5", CAPSULE, (0, 0, -0.215, 0, 0.055, -0.08), 0.05, WHITE),
    ("link5", CYLINDER, (0, 0, -0.254, 0, 0, -0.21), 0.055, WHITE),
    ("link5", CAPSULE, (0, 0.055, -0.08, 0, 0.05, -0.01), 0.042, WHITE),
    ("link5", CYLINDER, (0, -0.045, 0, 0, 0.07, 0), 0.042, DARK),
    ("link6", CAPSULE, (0, 0, -0.02, 0, 0, 0.02), 0.05, WHITE),
    ("link6", CAPSULE, (0, 0, 0, 0.088, 0, 0), 0.046, WHITE),
    ("link6", CYLINDER, (0.088, 0.055, 0, 0.088, -0.04, 0), 0.048, WHITE),
    ("link6", CYLINDER, (0.088, 0.056, 0, 0.088, 0.061, 0), 0.03, ACCENT),
    ("link7", CYLINDER, (0, 0, 0.04, 0, 0, 0.085), 0.046, WHITE),
    ("link7", CYLINDER, (0, 0, 0.085, 0, 0, 0.107), 0.036, DARK),
)  # fmt: skip

BUILT_IN = {"so101": Path(__file__).parent / "arms" / "so101.xml"}
"""Files of the built-in arms besides the Panda, by the names that ``arm.model`` may have instead of a path."""

WRIST_SENSORS = {"wrist_force": mujoco.mjtSensor.mjSENS_FORCE, "wrist_torque": mujoco.mjtSensor.mjSENS_TORQUE}


def load_arm(config: ArmConfig) -> mujoco.MjSpec:
    """Return the arm that ``config`` names, driven by torque motors ``torque_<joint>`` instead of its own actuators.

    Raises:
        ConfigError: if the file cannot be read, or lacks a joint, site or actuator that ``config`` names.
    """
    if config.model is None:
        spec = _panda()
    else:
        spec = read_arm_file(str(BUILT_IN.get(config.model) or own_file(config.model))).spec
    _add_end_effector(spec, config)
    _check_names(spec, config)
    for actuator in list(spec.actuators):
        if actuator.target in config.joints:
            spec.delete(actuator)
    motors = {f"torque_{joint}" for joint in config.joints}
    rename_clashes(spec, {"actuators": motors, "sensors": set(WRIST_SENSORS)}, config)
    for joint, limit in zip(config.joints, config.torque_limits, strict=True):
        motor = spec.add_actuator(name=f"torque_{joint}", target=joint, trntype=mujoco.mjtTrn.mjTRN_JOINT)
        motor.set_to_motor()
        motor.ctrllimited = motor.forcelimited = True
        motor.ctrlrange = motor.forcerange = (-limit, limit)
    add_dynamics(spec, config)
    _add_wrist_sensors(spec, config)
    for key in list(spec.keys):  # key frames no longer match the model once objects are added
        spec.delete(key)
    return spec


def compiled(scene: mujoco.MjSpec, config: ArmConfig) -> mujoco.MjModel:
    """Return the model of a scene with the arm that ``config`` names.

    Raises:
        ConfigError: if MuJoCo cannot make a model of the arm's file, for example because a mesh is missing.
    """
    enable_weights(scene, config)
    try:
        return scene.compile()
    except ValueError as error:
        if config.model is None:
            raise
        reason = " ".join(str(error).split()).removeprefix("Error: ")
        raise ConfigError(f"arm.model: MuJoCo makes no model of {config.model}: {reason}") from error


def read_arm_file(path: str) -> ArmFile:
    """Return the model in an MJCF or URDF file, with what a URDF file says beyond it.

    Raises:
        ConfigError: if the file cannot be read, or requests more than any robot needs.
    """
    if not Path(path).is_file():
        raise ConfigError(
            f"arm.model: there is no file {path}; expected the path of an MJCF or URDF file, or {' or '.join(BUILT_IN)}"
        )
    check_mjcf(path, "arm.model")
    try:
        root = ElementTree.parse(path).getroot()
        if root.tag != "robot":
            return ArmFile(mujoco.MjSpec.from_file(path))
    except (ValueError, ElementTree.ParseError) as error:
        raise ConfigError(f"arm.model: {path} is not a valid MJCF or URDF file: {error}") from error
    return read_urdf(path, root)


def _add_end_effector(spec: mujoco.MjSpec, config: ArmConfig) -> None:
    """Add a site to the body (in URDF: the link) that is named as end effector, unless such a site exists."""
    if config.end_effector not in [site.name for site in spec.sites]:
        for body in spec.bodies:
            if body.name == config.end_effector:
                body.add_site(name=config.end_effector)


def _check_names(spec: mujoco.MjSpec, config: ArmConfig) -> None:
    joints = [joint.name for joint in spec.joints]
    required: dict[str, tuple[Sequence[str], list[str]]] = {
        "joints": (config.joints, joints),
        "end_effector": ([config.end_effector], [item.name for item in (*spec.sites, *spec.bodies) if item.name]),
    }
    if config.gripper_actuator is not None:
        required["gripper_actuator"] = [config.gripper_actuator], [item.name for item in spec.actuators]
        required["gripper_joints"] = config.gripper_joints, joints
    if config.wrist_sensor_site is not None:
        required["wrist_sensor_site"] = [config.wrist_sensor_site], [site.name for site in spec.sites]
    problems = []
    for key, (wanted, names) in required.items():
        if missing := [name for name in wanted if name not in names]:
            lacks = ", ".join(map(repr, missing))
            problems.append(f"arm.{key}: the model has no {lacks}; {nearest(missing[0], names)}")
    movable = (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE)
    for joint in spec.joints:
        if joint.name in (*config.joints, *config.gripper_joints) and joint.type not in movable:
            problems.append(f"arm.joints: expected hinges and slides, {joint.name!r} is a ball or free joint")
    if problems:
        raise ConfigError(". ".join(problems))


def _add_wrist_sensors(spec: mujoco.MjSpec, config: ArmConfig) -> None:
    site = config.wrist_sensor_site or config.end_effector
    for name, kind in WRIST_SENSORS.items():
        spec.add_sensor(name=name, type=kind, objtype=mujoco.mjtObj.mjOBJ_SITE, objname=site)


def _panda() -> mujoco.MjSpec:
    spec = mujoco.MjSpec()
    spec.modelname = "panda"
    spec.compiler.degree = False
    spec.add_material(name="shell", rgba=(1, 1, 1, 1), specular=0.4, shininess=0.5, reflectance=0.0)
    body = spec.worldbody.add_body(name="link0")
    _set_inertial(body, 0.629769, (-0.041018, -0.00014, 0.049974),
                  (0.00315, 0.00388, 0.004285, 8.2904e-07, 0.00015, 8.2299e-06))  # fmt: skip
    bodies = {"link0": body}
    for number, link in enumerate(LINKS, start=1):
        body = body.add_body(name=f"link{number}", pos=link.position, quat=link.quaternion)
        _set_inertial(body, link.mass, link.centre, link.inertia)
        body.add_joint(
            name=f"joint{number}", type=mujoco.mjtJoint.mjJNT_HINGE, axis=(0, 0, 1), range=link.limits,
            limited=True, armature=ARMATURE, damping=JOINT_DAMPING,
        )  # fmt: skip
        bodies[body.name] = body
    for name, ends, radius in COLLISION_CAPSULES:
        bodies[name].add_geom(type=CAPSULE, fromto=ends, size=(radius, 0, 0), rgba=WHITE, **COLLIDES)
    for name, shape, ends, radius, colour in VISUALS:
        bodies[name].add_geom(type=shape, fromto=ends, size=(radius, 0, 0), rgba=colour, **SEEN)
    _add_hand(spec, body)
    return spec


def _set_inertial(body: Any, mass: float, centre: tuple[float, ...], inertia: tuple[float, ...]) -> None:
    body.explicitinertial = True
    body.mass, body.ipos, body.fullinertia = mass, centre, inertia


def _add_hand(spec: mujoco.MjSpec, flange_parent: Any) -> None:
    hand = flange_parent.add_body(
        name="hand", pos=(0, 0, FLANGE), quat=(np.cos(HAND_YAW / 2), 0, 0, np.sin(HAND_YAW / 2))
    )
    _set_inertial(hand, HAND_MASS, HAND_CENTRE, (*HAND_INERTIA, 0, 0, 0))
    hand.add_geom(type=BOX, pos=(0, 0, 0.032), size=(0.03, 0.1, 0.032), **COLLIDES)
    hand.add_geom(type=CYLINDER, fromto=(0, 0, 0, 0, 0, 0.012), size=(0.04, 0, 0), rgba=DARK, **SEEN)
    hand.add_geom(type=BOX, pos=(0, 0, 0.034), size=(0.027, 0.085, 0.024), rgba=WHITE, **SEEN)
    for side in (-1, 1):
        hand.add_geom(
            type=CYLINDER, fromto=(0, side * 0.085, 0.010, 0, side * 0.085, 0.058), size=(0.027, 0, 0),
            rgba=WHITE, **SEEN,
        )  # fmt: skip
    hand.add_geom(type=BOX, pos=(0, 0, 0.059), size=(0.018, 0.095, 0.002), rgba=DARK, **SEEN)
    hand.add_geom(type=BOX, pos=(0.052, 0, 0.03), size=(0.012, 0.018, 0.01), rgba=DARK, **SEEN)
    hand.add_site(name="wrist", size=(0.005, 0, 0), group=4)
    hand.add_site(name="end_effector", pos=(0, 0, GRASP_POINT), size=(0.005, 0, 0), group=4)
    # The camera looks past the fingers; up in the image is the hand's x axis.
    eye = (0.075, 0, 0.05)
    hand.add_camera(name="wrist", pos=eye, fovy=76, **looking_at(eye, (0.02, 0, 0.13), up=(1, 0, 0)))
    for number, quaternion in ((1, (1, 0, 0, 0)), (2, (0, 0, 0, 1))):
        _add_finger(hand, number, quaternion)
    # One motor and two fingers that mirror each other, as in the real hand.
    coupling = spec.add_equality(
        type=mujoco.mjtEq.mjEQ_JOINT, objtype=mujoco.mjtObj.mjOBJ_JOINT, name1="finger_joint1", name2="finger_joint2"
    )
    coupling.data[:5] = (0, 1, 0, 0, 0)
    coupling.solref = (0.005, 1)
    tendon = spec.add_tendon(name="fingers")
    tendon.wrap_joint("finger_joint1", 0.5)
    tendon.wrap_joint("finger_joint2", 0.5)
    force = 2 * FINGER_FORCE
    motor = spec.add_actuator(name="gripper", target="fingers", trntype=mujoco.mjtTrn.mjTRN_TENDON)
    motor.set_to_position(kp=6000.0, kv=force / FINGER_SPEED)
    motor.ctrllimited = motor.forcelimited = True
    motor.ctrlrange, motor.forcerange = (0, FINGER_TRAVEL), (-force, force)


def _add_finger(hand: Any, number: int, quaternion: tuple[float, ...]) -> None:
    finger = hand.add_body(name=f"finger{number}", pos=(0, 0, FINGER_HEIGHT), quat=quaternion)
    _set_inertial(finger, FINGER_MASS, (0, 0.01, 0.025), (*FINGER_INERTIA, 0, 0, 0))
    finger.add_joint(
        name=f"finger_joint{number}", type=mujoco.mjtJoint.mjJNT_SLIDE, axis=(0, 1, 0), range=(0, FINGER_TRAVEL),
        limited=True, armature=ARMATURE, damping=1.0,
    )  # fmt: skip
    finger.add_geom(name=f"finger{number}", type=BOX, pos=(0, 0.011, 0.027), size=(0.01, 0.007, 0.027), **COLLIDES)
    finger.add_geom(type=BOX, pos=(0, 0.016, 0.010), size=(0.010, 0.013, 0.010), rgba=WHITE, **SEEN)
    finger.add_geom(type=BOX, pos=(0, 0.011, 0.035), size=(0.0095, 0.007, 0.0185), rgba=DARK, **SEEN)
    # Soft rubber: its friction has priority, including friction about the contact normal (condim 4).
    finger.add_geom(
        name=f"pad{number}", type=BOX, pos=(0, 0.002, 0.0435), size=(0.0095, 0.002, 0.0105), rgba=RUBBER,
        condim=4, friction=(1.5, 0.01, 0.0001), priority=1, **COLLIDES | {"group": VISUAL_GROUP},
    )  # fmt: skip


def looking_at(
    position: tuple[float, ...], target: tuple[float, ...], up: tuple[float, ...] = (0, 0, 1)
) -> dict[str, Any]:
    """Return the keyword ``quat`` for a camera at ``position`` that looks at ``target`` [m], with ``up`` upwards."""
    backward = np.asarray(position, dtype=float) - target
    backward /= np.linalg.norm(backward)
    right = np.cross(up, backward)
    right /= np.linalg.norm(right)
    quaternion = np.empty(4)
    mujoco.mju_mat2Quat(quaternion, np.stack([right, np.cross(backward, right), backward], axis=1).ravel())
    return {"quat": quaternion}
