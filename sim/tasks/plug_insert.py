"""``plug_insert``: insert a held plug into a socket, guided by force, because the socket's pose is only estimated."""

import math
from dataclasses import dataclass

import mujoco
import numpy as np
from numpy.typing import NDArray

from robo_rl.core import Observation, option, require

from ..config import ArmConfig, ControllerConfig, TaskConfig
from ..simulation import ArmSimulation
from . import plug_model
from .base import Array, Task, aim_cameras, raised

CAMERAS = (
    ("front", (0.80, 0.0, 0.26), (0.50, 0.0, 0.06)),
    ("view", (0.88, -0.44, 0.36), (0.46, 0.0, 0.10)),
)
"""Name, position and target [m] of cameras that are close, because the plug is small."""

MOUTH_POSITION = (0.5, 0.0, 0.04)
"""Middle of the region in which the mouth of the socket is placed [m]."""
GRASP_HEIGHT = plug_model.TIP
"""Height of the end effector above the plug's tip [m]."""
FINE = 0.01
"""Distance that equals 1 in the fine part of the observation [m]."""
PAD_SQUEEZE = 0.00003
"""Depth to which each finger sinks in under its grip, with which the plug is at rest from the start [m]."""

# Parameters of the expert.
CLEAR = 0.004
"""Height of the tip, on its way, above the highest possible position of the mouth [m]."""
CENTRED = 0.0008
"""Horizontal distance from the estimate within which the tip moves down [m]."""
PITCH = 0.0013
"""Distance between two turns of the spiral [m]. The chamfer catches the plug within 0.8 mm, even if it is rotated."""
STRIDE = 0.0024
"""Length of a step along the spiral [m]."""
LARGEST_TURN = 0.8
"""Largest step along the spiral, as an angle [rad]."""
NEAR = 0.0015
"""Distance of the tip from its target on the spiral above which the search waits for it [m]."""
WAITING = 0.2
"""Step of a waiting search, as a share: not 0, because an edge may hold the plug until the target is far enough."""
LEAD = 0.00015
"""Additional sideways motion, to overcome friction on the socket [m]."""
TURN_BACK = 0.2
"""Turn of a step of the search towards the estimated yaw, as a share of the difference."""
PRESS = 0.5
"""Downward action of the search."""
SUPPORTED = 1.2
"""Upward force above which something supports the plug [N]."""
DROP = 0.00015
"""Depth below the surface around the mouth from which the plug counts as in the chamfer [m]."""
CREEP = 0.1
"""Share by which the remembered surface follows the tip, because a pressed plug creeps in the hand."""
PATIENCE = 30
"""Number of steps for which the plug may stay in the chamfer without moving deeper."""
YIELD = 0.0001
"""Motion of a step along the sideways force [m/N]."""
TURN_YIELD = 0.6
"""Turn of a step along the torque [rad/Nm]: large enough for an operator to see."""


ARM = ArmConfig(
    home=(0.0, 0.24673, 0.0, -2.4005, 0.0, 2.64723, math.pi / 4), home_opening=0.0, force_limit=30.0, torque_limit=5.0
)
"""The tip of the held plug is 3 cm above the mouth. The limits are those of the plug, far below the arm's."""

CONTROLLER = ControllerConfig(
    action_axes="xyz+yaw",
    translation_scale=0.003,
    rotation_scale=0.04,
    workspace_low=(0.40, -0.1, 0.05),
    workspace_high=(0.60, 0.1, 0.18),
    rate=1000.0,
    stiffness=(4000.0, 4000.0, 2000.0, 150.0, 150.0, 20.0),
    damping=(250.0, 250.0, 150.0, 10.0, 10.0, 3.0),
    error_clip=(0.004, 0.004, 0.004, 0.1, 0.1, 0.1),
)
"""Steps of 3 mm exert at most 6 N along the plug and 12 N across it. The controller is soft about the vertical, so that
the socket can turn the plug."""


@dataclass(frozen=True)
class PlugInsertConfig(TaskConfig):
    """Configuration of ``plug_insert``.

    Attributes:
        clearance: width of the socket minus width of the tongue (20 mm by 10 mm), in both directions; half of it is on
            each side of a centred plug [m].
        depth: depth of the tip below the mouth for success [m]; the socket is 15 mm deep.
        position_range: half widths of the uniform displacement of the socket in x, y and z [m].
        yaw_range: half width of the uniform turn of the socket about the vertical [rad].
        pose_error: half width of the uniform error of the estimated position, in x, y and z [m].
        yaw_error: half width of the uniform error of the estimated yaw [rad].
    """

    name: str = "plug_insert"
    max_episode_steps: int = 300
    clearance: float = option(0.0003, low=0.0002, high=0.003)
    depth: float = option(0.012, low=0.005, high=0.014)
    position_range: tuple[float, ...] = (0.02, 0.02, 0.01)
    yaw_range: float = option(0.15, low=0, high=0.5)
    pose_error: float = option(0.005, low=0, high=0.008)
    yaw_error: float = option(0.05, low=0, high=0.06)
    arm: ArmConfig = ARM
    controller: ControllerConfig = CONTROLLER

    def __post_init__(self) -> None:
        super().__post_init__()
        values, largest = self.position_range, (0.05, 0.05, 0.01)
        valid = len(values) == 3 and all(0 <= value <= most for value, most in zip(values, largest, strict=True))
        require(valid, "position_range", f"3 values from 0 to at most {largest}", values)
        gripper = self.arm.gripper_actuator
        require(gripper is not None, "arm.gripper_actuator", "named: the plug is held by the gripper", gripper)


class PlugInsert(Task):
    """Insert a plug, held by friction between the fingers, into a socket that must be found by touch.

    The episode begins with the plug in the hand. The estimated pose of the socket is the true pose plus an error,
    drawn for each episode, that no vector observation contains. Contact reveals it: ``state`` has the force and the
    torque at the wrist. Cameras show the true socket.

    Success: the tip is in the true socket, ``depth`` below its mouth.

    Object state: the vector from the plug's tip, computed from the end effector's pose without slip of the plug, to the
    middle of the estimated mouth (base frame) [m], and the same in units of ``FINE``, clipped to 1; the angle by which
    the plug must turn to match the estimated socket [rad].

    Shaped terms: ``aligned`` (1 with the tip on the axis of the true socket), ``inserted`` (share of ``depth``).
    """

    config_class = PlugInsertConfig
    shaped_terms = ("aligned", "inserted")

    config: PlugInsertConfig

    def build(self, spec: mujoco.MjSpec) -> None:
        plug_model.add_socket(spec, self.config.clearance)
        plug_model.add_plug(spec)
        aim_cameras(spec, CAMERAS)

    def bind(self, model: mujoco.MjModel) -> None:
        self._tip = model.site(plug_model.TIP_SITE).id
        self._socket = int(model.body(plug_model.SOCKET_BODY).mocapid[0])
        self._estimate = int(model.body(plug_model.ESTIMATE_BODY).mocapid[0])
        self._end_effector = model.site(self.config.arm.end_effector).id
        self._plug_qpos = int(model.joint(plug_model.PLUG_BODY).qposadr[0])
        self._fingers = [int(model.joint(name).qposadr[0]) for name in self.config.arm.gripper_joints]

    def initialise(self, model: mujoco.MjModel, data: mujoco.MjData, rng: np.random.Generator) -> None:
        config = self.config
        mouth = MOUTH_POSITION + rng.uniform(-1, 1, 3) * config.position_range
        yaw = rng.uniform(-config.yaw_range, config.yaw_range)
        error, turn = config.pose_error * rng.uniform(-1, 1, 3), config.yaw_error * rng.uniform(-1, 1)
        for body, position, angle in (
            (self._socket, mouth, yaw),
            (self._estimate, mouth + error, yaw + turn),
        ):
            data.mocap_pos[body] = position
            data.mocap_quat[body] = (math.cos(angle / 2), 0.0, 0.0, math.sin(angle / 2))

        # The plug's z axis points against the end effector's: half a turn about the hand's x axis.
        rotation = data.site_xmat[self._end_effector].reshape(3, 3) @ np.diag([1.0, -1.0, -1.0])
        start = self._plug_qpos
        data.qpos[start : start + 3] = data.site_xpos[self._end_effector]
        mujoco.mju_mat2Quat(data.qpos[start + 3 : start + 7], rotation.ravel())
        data.qpos[self._fingers] = plug_model.HANDLE_SIZE[1] / 2 - PAD_SQUEEZE

    def tip_to_estimate(self, data: mujoco.MjData) -> Array:
        """Return the vector (3,) from the tip, computed from the end effector's pose, to the estimated mouth [m]."""
        hand = data.site_xmat[self._end_effector].reshape(3, 3)
        tip = data.site_xpos[self._end_effector] + GRASP_HEIGHT * hand[:, 2]
        away: Array = data.mocap_pos[self._estimate] - tip
        return away

    def yaw_to_estimate(self, data: mujoco.MjData) -> float:
        """Return the angle about the vertical from the hand to the estimated socket, in [-pi, pi] [rad]."""
        rotation, quaternion = data.site_xmat[self._end_effector], data.mocap_quat[self._estimate]
        estimated = 2.0 * math.atan2(float(quaternion[3]), float(quaternion[0]))
        return math.remainder(estimated - math.atan2(float(rotation[3]), float(rotation[0])), 2 * math.pi)

    def tip_in_socket(self, data: mujoco.MjData) -> Array:
        """Return the true position of the tip (3,) in the frame of the socket [m]."""
        rotation = np.empty(9)
        mujoco.mju_quat2Mat(rotation, data.mocap_quat[self._socket])
        position: Array = rotation.reshape(3, 3).T @ (data.site_xpos[self._tip] - data.mocap_pos[self._socket])
        return position

    def depth(self, data: mujoco.MjData) -> float:
        """Return the depth of the tip in the socket, 0 outside [m]."""
        x, y, z = self.tip_in_socket(data).tolist()
        inside = abs(x) <= plug_model.TONGUE_SIZE[0] / 2 and abs(y) <= plug_model.TONGUE_SIZE[1] / 2
        return max(0.0, -z) if inside else 0.0

    def object_state(self, data: mujoco.MjData) -> dict[str, Array]:
        away = self.tip_to_estimate(data)
        return {
            "tip_to_estimate": away,
            "tip_to_estimate_fine": np.clip(away / FINE, -1.0, 1.0),
            "yaw_to_estimate": np.array([self.yaw_to_estimate(data)]),
        }

    def success(self, data: mujoco.MjData) -> bool:
        return self.depth(data) >= self.config.depth

    def reward_terms(self, data: mujoco.MjData) -> dict[str, float]:
        x, y, _ = self.tip_in_socket(data).tolist()
        return {
            "aligned": 1.0 - math.tanh(50.0 * math.hypot(x, y)),
            "inserted": min(1.0, self.depth(data) / self.config.depth),
        }

    def expert(self, backend: ArmSimulation, rng: np.random.Generator) -> "PlugExpert":
        return PlugExpert(self, backend)


class PlugExpert:
    """A scripted expert: to the estimate, down until something supports the plug, along a spiral, and in.

    It uses what a policy observes, without the sensors' noise, and remembers the height of the surface around the mouth
    and the progress of the search. A plug below the surface is in the chamfer: the expert pushes it down and yields to
    force and torque. If the plug climbs out, the search continues around that position.
    """

    def __init__(self, task: PlugInsert, simulation: ArmSimulation) -> None:
        self._task = task
        self._simulation = simulation
        self._push = np.array([0.0, 0.0, -task.config.controller.translation_scale])
        self._clear = task.config.pose_error + CLEAR
        self._limit = math.sqrt(2) * task.config.pose_error + PITCH
        self.reset()

    def reset(self) -> None:
        """Forget the surface and the progress of the search."""
        self._surface = -math.inf
        self._centre = np.zeros(3)
        self._angle = 0.0
        self._lowest, self._waited = math.inf, 0

    def act(self, observation: Observation) -> NDArray[np.float32]:
        """Return the action (4,) for the simulator's current state; ``observation`` is ignored."""
        simulation, task, data = self._simulation, self._task, self._simulation.data
        hand, rotation = simulation.arm.position(data), simulation.arm.rotation(data)
        away, turn = task.tip_to_estimate(data), task.yaw_to_estimate(data)
        distance, height = math.hypot(away[0], away[1]), -float(away[2])
        force, torque = (rotation @ vector for vector in simulation.arm.wrench(data))
        supported = force[2] > SUPPORTED
        if supported:
            if height > self._surface + DROP:  # the first touch, or the search has climbed out of the chamfer
                self._angle = 0.0
            self._surface = max(self._surface, height)
        if distance > self._limit and height < self._clear:  # the search has missed the socket and starts again
            self.reset()
            shift, turn = -self._push, 0.0
        elif height > self._clear - 0.0015 and distance > CENTRED:
            shift = raised(away, self._clear)
        elif not supported:
            shift, turn = self._push, 0.0
        elif height < max(self._surface - DROP, -task.config.pose_error - plug_model.CHAMFER):
            shift, turn = self._push + YIELD * force * (1.0, 1.0, 0.0), TURN_YIELD * float(torque[2])
            self._centre, self._angle = -away, 0.0
            self._settle(height)
        else:
            self._surface += CREEP * (height - self._surface)
            shift, turn = PRESS * self._push + self._along_spiral(-away), TURN_BACK * turn
        return simulation.action_towards(hand + shift, rotation=turned(turn) @ rotation)

    def _settle(self, height: float) -> None:
        """Take ``height`` [m] as the surface's if the plug has stopped moving deeper: it has slipped in the hand."""
        deeper = height < self._lowest - DROP
        self._lowest, self._waited = (height, 0) if deeper else (self._lowest, self._waited + 1)
        if self._waited > PATIENCE:
            self._surface = height

    def _along_spiral(self, tip: Array) -> Array:
        """Return the sideways motion (3,) from the tip's position (3,) to the next target on the spiral [m]."""
        self._lowest = math.inf
        radius = PITCH * self._angle / (2 * math.pi)
        target = self._centre + radius * np.array([math.cos(self._angle), math.sin(self._angle), 0.0])
        way = (target - tip) * (1.0, 1.0, 0.0)
        distance = math.hypot(way[0], way[1])
        step = min(LARGEST_TURN, STRIDE / max(radius, 1e-6))
        self._angle += step if distance < NEAR else WAITING * step
        if radius > self._limit:
            self._angle = 0.0
        motion: Array = way * (1.0 + LEAD / max(distance, LEAD))
        return motion


def turned(angle: float) -> Array:
    """Return the rotation matrix (3, 3) about the vertical by ``angle`` [rad]."""
    cosine, sine = math.cos(angle), math.sin(angle)
    return np.array([[cosine, -sine, 0.0], [sine, cosine, 0.0], [0.0, 0.0, 1.0]])
