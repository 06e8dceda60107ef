"""Description of an arm that is read from its model, with a list of what the model does not say."""

import re
from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from robo_rl.core import ConfigError, nearest

from .arm import read_arm_file
from .arm_parts import below, find_parts
from .observation import endless

Array = NDArray[np.float64]

TOOL_NAME = re.compile("tcp|tool|ee|effector|grasp|pinch|grip|flange|attach|tip", re.IGNORECASE)
SLOW = 1.0
"""Speed limit of a joint whose model has none [rad/s or m/s]."""
STRENGTH = 2.0
"""Torque limit of a joint whose model has none, as a multiple of the largest torque to hold and accelerate the arm."""
FARTHEST_BASE = 0.3
"""Largest distance of the first joint from the z axis of the world [m]; tasks expect the base at the origin."""
WEAKEST = 0.1
"""Smallest such limit [Nm or N]."""
ACCELERATION = 5.0
"""That acceleration [rad/s^2 or m/s^2]."""
SAMPLES = 500
"""Number of random poses in each step of the search for a home."""
AHEAD = (0.55, 0.0, 0.35)
"""Position of the end effector at home, as a share of the reach, unless the model has a key frame."""


@dataclass(frozen=True)
class ArmDescription:
    """The facts of an arm that a configuration needs.

    Attributes:
        joints: names, from the base outwards.
        end_effector: name of a site or body.
        home: joint positions of the key frame ``home``, or of a pose whose end effector is ahead of the base and points
            down [rad or m].
        velocity_limits: of the joints [rad/s or m/s].
        torque_limits: of the joints [Nm or N].
        gripper_joints: names of the joints beyond the arm's own.
        gripper_actuator: name of the actuator that moves one of these; None if there is none.
        gripper_range: control values of the closed and the open gripper, if its upper end opens it.
        home_position: of the end effector in the pose ``home`` (3,) [m].
        reach: largest distance of the end effector from the base [m].
        notes: assumptions to check, a sentence each.
        mjcf: the model in MJCF, if the file is URDF; empty otherwise.
    """

    joints: tuple[str, ...]
    end_effector: str
    home: tuple[float, ...]
    velocity_limits: tuple[float, ...]
    torque_limits: tuple[float, ...]
    gripper_joints: tuple[str, ...]
    gripper_actuator: str | None
    gripper_range: tuple[float, float]
    home_position: Array
    reach: float
    notes: tuple[str, ...]
    mjcf: str


def describe_arm(path: str, end_effector: str | None = None) -> ArmDescription:
    """Return the description of the arm in an MJCF or URDF file.

    Args:
        path: path of the file.
        end_effector: name of the site or body (in URDF: the link) that is the end effector; None: it is looked for.

    Raises:
        ConfigError: if the file cannot be read, or holds no arm, or an arm that cannot be configured; the message lists
            all reasons.
    """
    file = read_arm_file(path)
    spec, velocities = file.spec, file.velocities
    joints, fingers, hand = find_parts(spec.worldbody, path)
    notes = list(file.notes)
    if fingers:
        notes.append(f"gripper_joints: {', '.join(fingers)} are taken as the joints of the gripper")
    end_effector = _end_effector(hand, notes) if end_effector is None else _named(spec, end_effector, path)
    if end_effector not in [site.name for site in spec.sites]:
        spec.body(end_effector).add_site(name=end_effector)
    model = _compile(spec, path)
    poses = Poses(model, joints, end_effector)
    if poses.base_distance > FARTHEST_BASE:
        raise ConfigError(
            f"{path}: the base must stand at the origin, but the joint {joints[0]!r} is {poses.base_distance:.2f} m "
            "away from the z axis"
        )
    torques = {name: _torque(model, name) for name in joints}
    for key, lacking, assumption in (
        ("position limits", poses.endless, "nothing stops these joints"),
        ("velocity_limits", [name for name in joints if name not in velocities], f"{SLOW:g} rad/s (m/s) is taken"),
        (
            "torque_limits",
            [name for name, torque in torques.items() if torque is None],
            f"{STRENGTH:g} times what holds and moves the arm is taken",
        ),
    ):
        if lacking:
            notes.append(f"{key}: the model has none for {', '.join(lacking)}; {assumption}")
    if poses.key is None:
        notes.append("home: the model has no key frame; a pose ahead of the base, with the hand downwards, is taken")
    home = np.round(poses.find_home() if poses.key is None else poses.key, 4)
    actuator, gripper_range = _gripper(model, fingers, notes)
    return ArmDescription(
        joints=joints,
        end_effector=end_effector,
        home=tuple(map(float, home)),
        velocity_limits=tuple(velocities.get(name, SLOW) for name in joints),
        torque_limits=tuple(
            max(float(f"{STRENGTH * needed:.2g}"), WEAKEST) if torque is None else torque
            for torque, needed in zip(torques.values(), poses.torques, strict=True)
        ),
        gripper_joints=tuple(fingers) if actuator else (),
        gripper_actuator=actuator,
        gripper_range=gripper_range,
        home_position=poses.place(home),
        reach=poses.reach,
        notes=tuple(notes),
        mjcf=spec.to_xml() if file.is_urdf else "",
    )


def _named(spec: Any, name: str, path: str) -> str:
    """Return the name of a site or body of a model.

    Raises:
        ConfigError: if there is none.
    """
    names = [each.name for each in (*spec.sites, *spec.bodies) if each.name]
    if name not in names:
        raise ConfigError(f"{path} has no site or body {name!r}: {nearest(name, names)}")
    return name


def _end_effector(last: Any, notes: list[str]) -> str:
    """Return the name of a site, or otherwise a body, that the last joint of the arm moves."""
    rigid = list(below(last, rigid=True))
    sites = [site.name for body in rigid for site in body.sites if site.name]
    for name in sites:
        if TOOL_NAME.search(name):
            return str(name)
    tools = [body.name for body in reversed(rigid) if body.name and TOOL_NAME.search(body.name)]
    name = (sites or tools or [last.name])[0]
    kind = "site" if sites else "body"
    notes.append(
        f"end_effector: the {kind} {name!r} is taken; its z axis must point outwards, from between the fingers"
    )
    return str(name)


def _gripper(model: Any, fingers: list[str], notes: list[str]) -> tuple[str | None, tuple[float, float]]:
    """Return the actuator that moves one of the fingers, and its control values for closed and open."""
    if not fingers:
        return None, (0.0, 1.0)
    ids = {model.joint(name).id for name in fingers}
    moving = [number for number in range(model.nu) if ids & set(_moved(model, number)) and model.actuator(number).name]
    if not moving:
        notes.append(f"gripper_actuator: no named actuator moves {', '.join(fingers)}; actions do not move the gripper")
        return None, (0.0, 1.0)
    name, (low, high) = model.actuator(moving[0]).name, map(float, model.actuator_ctrlrange[moving[0]])
    if not low < high:
        low, high = 0.0, 1.0
        notes.append(f"gripper_open: the actuator {name!r} has no control range; 0 to 1 is assumed")
    notes.append(f"gripper_open: {high:g}, the upper end of {name!r}, is assumed to open the gripper")
    return name, (low, high)


def _moved(model: Any, actuator: int) -> list[int]:
    """Return the joints that an actuator moves directly or by a tendon."""
    target = int(model.actuator_trnid[actuator, 0])
    if model.actuator_trntype[actuator] == mujoco.mjtTrn.mjTRN_TENDON:
        first, number = model.tendon_adr[target], model.tendon_num[target]
        wraps = range(first, first + number)
        return [int(model.wrap_objid[w]) for w in wraps if model.wrap_type[w] == mujoco.mjtWrap.mjWRAP_JOINT]
    return [target] if model.actuator_trntype[actuator] == mujoco.mjtTrn.mjTRN_JOINT else []


def _torque(model: Any, name: str) -> float | None:
    """Return the largest torque or force of a joint; None if the model limits none."""
    joint = model.joint(name).id
    ranges = [model.jnt_actfrcrange[joint]] if model.jnt_actfrclimited[joint] else []
    for number in range(model.nu):
        if model.actuator_forcelimited[number] and _moved(model, number) == [joint]:
            ranges.append(model.actuator_forcerange[number] * model.actuator_gear[number, 0])
    limits = [float(np.abs(limit).max()) for limit in ranges]
    return min((limit for limit in limits if limit > 0), default=None)


def _compile(spec: Any, path: str) -> mujoco.MjModel:
    try:
        return spec.compile()
    except ValueError as error:
        raise ConfigError(f"MuJoCo makes no model of {path}: {' '.join(str(error).split())}") from error


class Poses:
    """Poses of an arm in its model: the place of the end effector, contacts, and the torques that are needed.

    Args:
        model: the model.
        names: names of the joints.
        end_effector: name of the site.
    """

    def __init__(self, model: Any, names: tuple[str, ...], end_effector: str) -> None:
        self._model, self._data = model, mujoco.MjData(model)
        ids = [model.joint(name).id for name in names]
        self._places, self._velocities = model.jnt_qposadr[ids], model.jnt_dofadr[ids]
        self._site = model.site(end_effector).id
        limited = model.jnt_limited[ids].astype(bool)
        self.endless = tuple(name for name, turns in zip(names, endless(model, names), strict=True) if turns)
        self.low, self.high = np.where(limited[:, None], model.jnt_range[ids], (-np.pi, np.pi)).T
        self.key: Array | None = None
        if model.nkey:
            keys = [model.key(number).name for number in range(model.nkey)]
            self.key = model.key_qpos[keys.index("home") if "home" in keys else 0, self._places]
        mujoco.mj_kinematics(model, self._data)
        self.base_distance = float(np.linalg.norm(self._data.xanchor[ids[0], :2]))
        self.torques: Array = np.zeros(len(ids))
        self.reach, rng = 0.0, np.random.default_rng(0)
        for _ in range(SAMPLES):
            self.place(rng.uniform(self.low, self.high))

    def place(self, joints: Array) -> Array:
        """Return the position of the end effector (3,) [m] with ``joints`` (n,); note torques and reach."""
        self._data.qpos[self._places] = joints
        mujoco.mj_fwdPosition(self._model, self._data)
        mujoco.mj_fwdVelocity(self._model, self._data)
        position: Array = self._data.site_xpos[self._site].copy()
        inertia = np.empty((self._model.nv, self._model.nv))
        mujoco.mj_fullM(self._model, self._data, inertia)
        needed = np.abs(self._data.qfrc_bias) + ACCELERATION * np.diag(inertia)
        self.torques = np.maximum(self.torques, needed[self._velocities])
        self.reach = max(self.reach, float(np.linalg.norm(position)))
        return position

    def find_home(self) -> Array:
        """Return a pose (n,) with the end effector ahead of the base, the hand downwards, and joints little bent."""
        middle, half = (self.low + self.high) / 2, (self.high - self.low) / 2
        rng, best = np.random.default_rng(0), np.array(middle)

        def cost(joints: Array) -> float:
            away = np.linalg.norm(self.place(joints) - self.reach * np.array(AHEAD)) / self.reach
            downwards = self._data.site_xmat[self._site, 8]
            bent = np.square((joints - middle) / half).max()
            return float(away + 0.3 * downwards + 0.4 * bent + 10 * (self._data.ncon > 0))

        for spread in (1.0, 0.5, 0.25, 0.1, 0.05):
            around = best + spread * half * rng.uniform(-1, 1, (SAMPLES, len(best)))
            poses: list[Array] = [best, *np.clip(around, self.low, self.high)]
            best = min(poses, key=cost)
        return best
