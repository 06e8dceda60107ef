"""Arms whose joints do exactly what an action says, and how much of each limit a step uses."""

import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import Observation
from robo_rl.safety.actions import make_action_map
from robo_rl.safety.chain import FilterChain
from robo_rl.safety.compose import make_filter_chain
from robo_rl.safety.config import BarrierConfig, JointsConfig, SafetyConfig, SpeedConfig
from robo_rl.safety.distance import geom_distance
from robo_rl.safety.kinematics import Kinematics
from robo_rl.safety.motion import ArmReader
from robo_rl.sim import make_backend
from robo_rl.sim.config import ArmConfig, ControllerConfig

Array = NDArray[np.float64]
Action = NDArray[np.float32]

ARMS_FOLDER = Path(__file__).parents[1] / "data" / "arms"
MARGIN = 0.01
REACH = 0.05
"""Up to which distances are measured [m]."""
TOLERANCES = {
    "position": 1e-5,
    "velocity": 1e-4,
    "acceleration": 3e-4,
    "jerk": 1e-3,
    "workspace": 1e-5,
    "speed": 1e-3,
    "clearance": 1e-3,
    "collision": -1e-9,  # to touch is to collide
}
"""Share of a limit beyond it that is no violation yet, by kind: actions and observations are float32."""


@dataclass(frozen=True)
class ArmCase:
    """An arm of the tests: how it is simulated, and its limit sets.

    Attributes:
        arm: its model and home.
        low: lower corner of its workspace [m].
        high: upper corner [m].
        keep_out: boxes to keep away from (centre and half sizes) [m].
        limits: of joints, by name of the set; ``default`` is what the simulator has.
    """

    arm: dict[str, Any]
    low: tuple[float, ...]
    high: tuple[float, ...]
    keep_out: tuple[float, ...]
    limits: dict[str, JointsConfig] = field(default_factory=dict)


CASES = {
    "panda": ArmCase(
        arm={},
        low=(0.25, -0.4, 0.01),
        high=(0.75, 0.4, 0.6),
        keep_out=(0.65, 0.3, 0.15, 0.05, 0.05, 0.15),
        limits={
            "default": JointsConfig(),
            "acceleration": JointsConfig(acceleration=(15.0, 7.5, 10.0, 12.5, 15.0, 20.0, 20.0)),
            "published": JointsConfig(
                velocity=(2.175, 2.175, 2.175, 2.175, 2.61, 2.61, 2.61),
                acceleration=(15.0, 7.5, 10.0, 12.5, 15.0, 20.0, 20.0),
                jerk=(7500.0, 3750.0, 5000.0, 6250.0, 7500.0, 10000.0, 10000.0),
            ),
            "tight": JointsConfig(velocity=(1.5,) * 7, acceleration=(8.0,) * 7, jerk=(60.0,) * 7),
        },
    ),
    "six_joints": ArmCase(
        arm={
            "model": str(ARMS_FOLDER / "six_joints.xml"),
            "joints": ("pan", "lift", "elbow", "wrist_pitch", "wrist_yaw", "wrist_roll"),
            "end_effector": "tip",
            "home": (0.0, 0.3, 1.4, 1.2, 0.3, 0.0),
            "torque_limits": (150.0, 150.0, 100.0, 28.0, 28.0, 28.0),
            "velocity_limits": (2.0, 2.0, 2.5, 3.0, 3.0, 3.0),
            "gripper_actuator": None,
            "gripper_joints": (),
            "wrist_sensor_site": None,
        },
        low=(0.15, -0.45, 0.05),
        high=(0.85, 0.55, 0.8),
        keep_out=(0.55, 0.35, 0.2, 0.06, 0.06, 0.2),
        limits={
            "default": JointsConfig(),
            "tight": JointsConfig(
                velocity=(1.5, 1.5, 2.0, 2.5, 2.5, 2.5),
                acceleration=(6.0,) * 6,
                jerk=(40.0, 40.0, 50.0, 60.0, 60.0, 60.0),
            ),
        },
    ),
    "five_joints": ArmCase(
        arm={
            "model": str(ARMS_FOLDER / "five_joints.xml"),
            "joints": ("slide", "yaw", "bend", "pitch", "roll"),
            "end_effector": "grip",
            "home": (0.15, 0.4, -0.8, 0.2, 0.0),
            "torque_limits": (100.0, 40.0, 30.0, 10.0, 5.0),
            "velocity_limits": (0.3, 2.0, 2.0, 3.0, 3.0),
            "gripper_actuator": None,
            "gripper_joints": (),
            "wrist_sensor_site": None,
        },
        low=(0.15, -0.35, 0.02),
        high=(0.65, 0.35, 0.45),
        keep_out=(0.4, -0.25, 0.1, 0.04, 0.04, 0.1),
        limits={
            "default": JointsConfig(),
            "tight": JointsConfig(
                velocity=(0.25, 1.5, 1.5, 2.0, 2.0),
                acceleration=(1.0, 6.0, 6.0, 8.0, 8.0),
                jerk=(8.0, 50.0, 50.0, 70.0, 70.0),
            ),
        },
    ),
}


class ExactArm:
    """An arm that follows every executed action exactly: no dynamics soften it.

    Args:
        case: name in :data:`CASES`.
        space: action space.
        rate: actions a second [Hz].
        limits: name of a limit set of the case.
        axes: that end-effector actions move.
        speed: limits of the end effector [m/s, rad/s]; None: the robot's.

    Attributes:
        clearance: smallest distance of all pairs of geoms that are watched [m], at most :data:`REACH`.
    """

    def __init__(
        self,
        case: str,
        space: str = "joint_delta",
        rate: float = 10.0,
        limits: str = "default",
        axes: str = "xyz+rotation",
        frame: str = "base",
        speed: SpeedConfig | None = None,
    ) -> None:
        chosen = CASES[case]
        self.limits, self.config_speed = chosen.limits[limits], speed or SpeedConfig()
        scale = 10.0 / rate
        backend = make_backend(
            "reach",
            control_rate=rate,
            keep_out=chosen.keep_out,
            arm=ArmConfig(home_noise=0.0, **chosen.arm),
            controller=ControllerConfig(
                action_space=space,
                action_axes=axes if space == "end_effector_delta" else "gripper" if case == "panda" else "xyz",
                action_frame=frame,
                rate=rate * math.ceil(500 / rate),
                joint_scale=0.4 * scale,
                translation_scale=0.12 * scale,
                rotation_scale=0.4 * scale,
                workspace_low=chosen.low,
                workspace_high=chosen.high,
            ),
        )
        self.backend, self.spec, self.robot = backend, backend.spec, backend.robot
        assert self.robot is not None
        self.kinematics = Kinematics(self.robot)
        self.reader = ArmReader(self.spec, self.robot)
        self.actions = make_action_map(self.spec, self.robot, Kinematics(self.robot), self.reader)
        self.size = self.spec.action.shape[0]
        self._first = {key: value.copy() for key, value in backend.reset(0).observation.items()}
        robot, given = self.robot, self.limits
        moves_joints = self.actions.moves_joints
        self.lower = np.array(robot.command_lower if moves_joints else robot.position_lower)
        self.upper = np.array(robot.command_upper if moves_joints else robot.position_upper)
        self.most = {
            key: np.array(getattr(given, key) or getattr(robot, key)) for key in ("velocity", "acceleration", "jerk")
        }
        self._speeds = (
            self.config_speed.linear or robot.linear_speed,
            self.config_speed.angular or robot.angular_speed,
        )
        self._pairs = _watched_pairs(robot)
        self._points = np.empty(6)
        names = self.spec.observation["state"].names
        self._place = names.index("end_effector_x")
        self._axes_place = names.index("end_effector_r11")
        self.reset()

    def chain(self, **changes: Any) -> FilterChain:
        """Return the filters, with a budget of violations that never ends."""
        config = SafetyConfig(
            joints=self.limits, barrier=BarrierConfig(margin=MARGIN), speed=self.config_speed, violation_budget=0
        )
        return make_filter_chain(self.spec, self.robot, replace(config, **changes))

    def reset(self) -> None:
        """Stand at home, at rest."""
        self.observation: Observation = {key: value.copy() for key, value in self._first.items()}
        n = len(self.lower)
        self.velocity, self.acceleration = np.zeros(n), np.zeros(n)
        self.clearance = self.smallest_distance(self.reader.joint_positions(self.observation))

    def execute(self, action: Action) -> dict[str, float]:
        """Move as ``action`` says; return by kind how much of each limit is used: above 1 it is violated."""
        period = self.actions.period
        motion = self.actions.motion(self.observation, action).joints
        before = self.reader.joint_positions(self.observation)
        joints = before + motion
        velocity = motion / period
        acceleration = (velocity - self.velocity) / period
        jerk = (acceleration - self.acceleration) / period
        start, turned = map(np.array, self.kinematics.pose(before))
        end, rotation = map(np.array, self.kinematics.pose(joints))
        angle = np.arccos(np.clip((np.vdot(rotation, turned) - 1) / 2, -1.0, 1.0))
        distance = self.smallest_distance(joints)
        low, high = np.array(self.robot.workspace_low), np.array(self.robot.workspace_high)
        loads = {
            "position": _share(joints, self.lower, self.upper),
            "velocity": float((np.abs(velocity) / self.most["velocity"]).max()),
            "acceleration": float((np.abs(acceleration) / self.most["acceleration"]).max()),
            "jerk": float((np.abs(jerk) / self.most["jerk"]).max()),
            "workspace": _share(end, low, high),
            "speed": max(np.linalg.norm(end - start) / period / self._speeds[0], angle / period / self._speeds[1]),
            # Nearer than the margin, and than it was before.
            "clearance": 1.0 + max(0.0, min(MARGIN, self.clearance) - distance) / MARGIN,
            "collision": (REACH - distance) / REACH,
        }
        self.velocity, self.acceleration, self.clearance = velocity, acceleration, distance
        self._observe(joints, end, rotation)
        return loads

    def place(self, joints: Array) -> None:
        """Stand at ``joints`` (n,), at rest."""
        self.reset()
        self._observe(joints, *map(np.array, self.kinematics.pose(joints)))
        self.clearance = self.smallest_distance(joints)

    def _observe(self, joints: Array, end: Array, rotation: Array) -> None:
        state = self.observation["state"].copy()
        state[: len(joints)] = joints
        state[self._place : self._place + 3] = end
        state[self._axes_place : self._axes_place + 6] = rotation.reshape(3, 3)[:, :2].T.ravel()
        self.observation["state"] = state

    def smallest_distance(self, joints: Array) -> float:
        """Return the smallest distance of all pairs of geoms that are watched [m], at most :data:`REACH`."""
        self.kinematics.place(joints)
        data = self.kinematics.data
        nearest = REACH
        for first, second, bound in self._pairs:
            apart = data.geom_xpos[first] - data.geom_xpos[second]
            if apart @ apart < bound * bound:
                nearest = min(nearest, geom_distance(self.robot.model, data, first, second, REACH, self._points))
        return nearest


def _share(value: Array, low: Array, high: Array) -> float:
    """Return how far ``value`` (n,) is from the middle of its range at most, 1 at an end of it or within 2 um of it."""
    beyond = np.maximum(low - value, value - high)
    shares = np.abs(2 * value - low - high) / (high - low)
    return float(np.where((beyond > 0) & (beyond < 2e-6), 1.0, shares).max())


def _watched_pairs(robot: Any) -> list[tuple[int, int, float]]:
    """Return pairs of geoms that are to keep apart, and the distance of their centres beyond which they are."""
    from robo_rl.safety.barrier import Clearances

    names = [robot.model.geom(number).name for number in range(robot.model.ngeom)]
    keep_out = tuple(name for name in names if name.startswith("keep_out"))
    pairs = Clearances(robot, Kinematics(robot), keep_out, 0.1)._pairs
    bounds = robot.model.geom_rbound
    return [(a, b, float(bounds[a] + bounds[b]) + REACH) for a, b in pairs]


class Stream:
    """Adversarial actions: uniform, bang-bang, held, resonant, ramps, and now and then no number at all.

    Args:
        size: of an action.
        seed: of the random generator.
        gripper: whether the last element is a gripper's; it does not matter here.
    """

    KINDS = ("uniform", "bang", "held", "resonant", "ramp", "broken")

    def __init__(self, size: int, seed: list[int]) -> None:
        self._rng = np.random.default_rng(seed)
        self._size = size
        self._held = np.zeros(size, np.float32)
        self._phase = np.zeros(size)

    def __call__(self, kind: str, step: int) -> Action:
        rng, size = self._rng, self._size
        if step % 20 == 0:
            self._held = rng.choice([-1.0, 1.0], size).astype(np.float32)
            self._phase = rng.uniform(1.0, 40.0, size)
        if kind == "uniform":
            return rng.uniform(-1, 1, size).astype(np.float32)
        if kind == "bang":
            return rng.choice([-1.0, 1.0], size).astype(np.float32)
        if kind == "held":
            return self._held
        if kind == "resonant":
            return np.sign(np.sin(2 * np.pi * step / self._phase)).astype(np.float32)
        if kind == "ramp":
            return (self._held * ((step % 20) / 20)).astype(np.float32)
        action = rng.uniform(-1, 1, size).astype(np.float32)
        if rng.random() < 0.1:
            action[rng.integers(size)] = rng.choice([np.nan, np.inf, -np.inf])
        return action
