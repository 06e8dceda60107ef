"""``open_door``: turn the lever down until the latch is free, then push the door open against its closer.

The fingers are closed, and three axes (x, y, z) are sufficient: the fingers press on the lever, and the hand pushes the
panel.
"""

import math
from dataclasses import dataclass

import mujoco
import numpy as np
from numpy.typing import NDArray

from robo_rl.core import option, require

from ..config import ArmConfig, ControllerConfig, TaskConfig
from ..simulation import ArmSimulation
from . import door_model
from .base import Array, FunctionExpert, Task, aim_cameras, distance_captions

HOVER = 0.035
"""Height above the lever's axis at which the end effector is moved over it [m]."""
CONTACT_HEIGHT = 0.019
"""The same height when the fingertips touch the lever [m]."""
ASIDE = 0.025
"""Largest horizontal distance from the lever at which the fingers move down [m]."""
TURN_MARGIN = 0.2
"""Angle by which the expert turns the lever further than the latch requires [rad]."""
AJAR = 0.03
"""Angle of the door at which the tongue has passed the keeper [rad]."""

CAMERAS = (
    ("front", (0.10, -0.55, 0.62), (0.62, 0.02, 0.24)),
    ("view", (-0.02, -1.15, 0.78), (0.42, 0.02, 0.27)),
)
"""Name, position and target [m] of the cameras on the robot's side of the door."""

# The middle of the region in which the door's frame may stand [m].
NOMINAL_POSITION = (0.655, 0.04)


CONTROLLER = ControllerConfig(action_axes="xyz", workspace_high=(0.80, 0.4, 0.6))
ARM = ArmConfig(home=(0.0, -0.17238, 0.0, -2.1549, 0.0, 1.98252, math.pi / 4), home_opening=0.0)
"""The hand points down, with its closed fingers 10 cm above the lever and 10 cm in front of it."""


@dataclass(frozen=True)
class OpenDoorConfig(TaskConfig):
    """Configuration of ``open_door``.

    Attributes:
        success_angle: angle of the door from which it counts as open [rad].
        position_range: half widths of the uniform displacement of the door in x and y [m].
        yaw_range: half width of the uniform turn of the door's frame about z [rad].
        hinge_stiffness: stiffness of the closer, the spring of the door's hinge [N m/rad].
        hinge_damping: damping of the door's hinge [N m s/rad].
        handle_stiffness: stiffness of the spring that returns the lever [N m/rad].
    """

    name: str = "open_door"
    max_episode_steps: int = 40
    success_angle: float = 0.35
    position_range: tuple[float, ...] = (0.03, 0.05)
    yaw_range: float = option(0.1, low=0, high=0.5)
    hinge_stiffness: float = option(1.0, above=0)
    hinge_damping: float = option(0.8, above=0)
    handle_stiffness: float = option(0.8, above=0)
    arm: ArmConfig = ARM
    controller: ControllerConfig = CONTROLLER

    def __post_init__(self) -> None:
        super().__post_init__()
        largest = door_model.MAX_HINGE_ANGLE
        require(0 < self.success_angle <= largest, "success_angle", f"in (0, {largest}]", self.success_angle)
        valid = len(self.position_range) == 2 and min(self.position_range) >= 0
        require(valid, "position_range", "2 values, 0 or more", self.position_range)


class OpenDoor(Task):
    """Open a door with a lever handle and a latch. Success: the door stands open by ``success_angle``.

    Object state: the vector from the end effector to the point of the lever to press (base frame) [m], the angles of
    lever and door [rad], the yaw of the door's frame [rad].
    """

    config_class = OpenDoorConfig
    shaped_terms = ("approach", "turn", "open")

    config: OpenDoorConfig

    def build(self, spec: mujoco.MjSpec) -> None:
        config = self.config
        dynamics = door_model.DoorDynamics(
            hinge_stiffness=config.hinge_stiffness,
            hinge_damping=config.hinge_damping,
            handle_stiffness=config.handle_stiffness,
        )
        door_model.add_door(spec, dynamics)
        # The default cameras would look at the back of the door.
        aim_cameras(spec, CAMERAS)

    def bind(self, model: mujoco.MjModel) -> None:
        self._hinge = int(model.joint(door_model.HINGE_JOINT).qposadr[0])
        self._handle = int(model.joint(door_model.HANDLE_JOINT).qposadr[0])
        self._frame = int(model.body(door_model.FRAME_BODY).mocapid[0])
        self._press = model.site(door_model.PRESS_SITE).id
        self._end_effector = model.site(self.config.arm.end_effector).id
        self._latch_angle = door_model.latch_angle()

    def initialise(self, model: mujoco.MjModel, data: mujoco.MjData, rng: np.random.Generator) -> None:
        spread = np.array(self.config.position_range)
        data.mocap_pos[self._frame, :2] = np.array(NOMINAL_POSITION) + rng.uniform(-spread, spread)
        yaw = rng.uniform(-self.config.yaw_range, self.config.yaw_range)
        data.mocap_quat[self._frame] = (math.cos(yaw / 2), 0.0, 0.0, math.sin(yaw / 2))

    def hinge_angle(self, data: mujoco.MjData) -> float:
        """Return the angle of the door, 0 when closed [rad]."""
        return float(data.qpos[self._hinge])

    def handle_angle(self, data: mujoco.MjData) -> float:
        """Return the angle of the lever, 0 when level, positive downwards [rad]."""
        return float(data.qpos[self._handle])

    def frame_yaw(self, data: mujoco.MjData) -> float:
        """Return the yaw of the door's frame [rad]."""
        quaternion = data.mocap_quat[self._frame]
        return 2.0 * math.atan2(float(quaternion[3]), float(quaternion[0]))

    def object_state(self, data: mujoco.MjData) -> dict[str, Array]:
        return {
            "lever_offset": self._to_lever(data),
            "handle_angle": np.array([self.handle_angle(data)]),
            "hinge_angle": np.array([self.hinge_angle(data)]),
            "door_yaw": np.array([self.frame_yaw(data)]),
        }

    def success(self, data: mujoco.MjData) -> bool:
        return self.hinge_angle(data) >= self.config.success_angle

    def reward_terms(self, data: mujoco.MjData) -> dict[str, float]:
        distance = float(np.linalg.norm(self._to_lever(data)))
        return {
            "approach": 1.0 - math.tanh(10.0 * distance),
            "turn": float(np.clip(self.handle_angle(data) / self._latch_angle, 0.0, 1.0)),
            "open": float(np.clip(self.hinge_angle(data) / self.config.success_angle, 0.0, 1.0)),
        }

    def captions(self, data: mujoco.MjData) -> dict[str, bool]:
        turn, angle = self.handle_angle(data) / self._latch_angle, self.hinge_angle(data)
        return {
            **distance_captions("the door handle", float(np.linalg.norm(self._to_lever(data))), (0.1, 0.06, 0.03)),
            "the door handle is level": turn < 0.2,
            "the door handle is turned": turn >= 0.5,
            "the door is closed": angle < AJAR,
            "the door is ajar": angle >= AJAR,
            "the door is half open": angle >= self.config.success_angle / 2,
            "the door is open": angle >= self.config.success_angle,
        }

    def expert(self, backend: ArmSimulation, rng: np.random.Generator) -> FunctionExpert:
        """Return an expert that moves over the lever, down with it, and forward, from the current state alone."""

        def act() -> NDArray[np.float32]:
            data = backend.data
            lever, hand = data.site_xpos[self._press], backend.arm.position(data)
            remaining = self._latch_angle + TURN_MARGIN - self.handle_angle(data)
            opened = self.hinge_angle(data) > AJAR
            if not opened and float(np.linalg.norm((lever - hand)[:2])) > ASIDE:
                return backend.action_towards((lever[0], lever[1], lever[2] + HOVER), gripper=1.0)
            # Down to the height at which the lever is turned far enough.
            down = lever[2] + CONTACT_HEIGHT - hand[2] - door_model.PRESS_DISTANCE * remaining
            if not opened and remaining > 0.5 * TURN_MARGIN:
                return backend.action_towards((lever[0], lever[1], hand[2] + down), gripper=1.0)
            heading = self.frame_yaw(data) + self.hinge_angle(data)
            forward = np.array([math.cos(heading), math.sin(heading), 0.0])
            return backend.action_towards(hand + 0.06 * forward, gripper=1.0)

        return FunctionExpert(act)

    def _to_lever(self, data: mujoco.MjData) -> Array:
        away: Array = data.site_xpos[self._press] - data.site_xpos[self._end_effector]
        return away
