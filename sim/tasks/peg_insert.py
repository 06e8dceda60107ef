"""``peg_insert``: put a held square peg into a square hole that is hardly wider than the peg."""

import math
from dataclasses import dataclass

import mujoco
import numpy as np
from numpy.typing import NDArray

from robo_rl.core import option, require

from ..config import ArmConfig, ControllerConfig, TaskConfig
from ..simulation import ArmSimulation
from . import peg_model
from .base import Array, FunctionExpert, Task, aim_cameras

CAMERAS = (
    ("front", (0.82, 0.0, 0.32), (0.50, 0.0, 0.06)),
    ("view", (0.95, -0.62, 0.50), (0.42, 0.0, 0.17)),
)
"""Name, position and target [m] of cameras that are close, because the peg is small."""

HOLE_POSITION = (0.5, 0.0)
"""Middle of the region in which the hole is placed (x, y) [m]."""
GRASP_HEIGHT = 0.06
"""Height of the end effector above the peg's tip, before the random grasp offset [m]."""
FINE = 0.003
"""Distance that equals 1 in the fine part of the observation [m]."""
PAD_SQUEEZE = 0.00005
"""Depth to which each finger sinks in under its grip, with which the peg is at rest from the start [m]."""
INSERTED_SHARE = 0.8
"""Share of the hole's depth that counts as inserted."""

# The expert's funnel: height of the tip above the block by its remaining error.
ALLOWED = 0.3
"""Distance from the axis at which the peg moves down, as a share of the clearance."""
DOWN = 0.02
"""Descent of a step once the peg fits [m]."""
AIM = 1.5
"""Sideways motion per distance: more than 1, to overcome friction on the block."""
FADE = 1.0
"""Distance over which the descent fades in, as a share of the clearance."""
INSIDE = 0.001
"""Depth from which the peg counts as in the hole [m]."""
FUNNEL_SLOPE = 2.0
"""Height per distance from the hole's axis."""
TURN_LEVER = 0.05
"""Distance that one unit of angle counts for [m/rad]."""
FUNNEL_TOP = 0.04
"""Greatest height [m]."""


ARM = ArmConfig(home=(0.0, 0.17434, 0.0, -2.3999, 0.0, 2.57423, math.pi / 4), home_opening=0.0)
"""The tip of the held peg is 4 cm above the block."""

CONTROLLER = ControllerConfig(
    action_axes="xyz+yaw",
    translation_scale=0.005,
    rotation_scale=0.04,
    workspace_low=(0.40, -0.1, 0.06),
    workspace_high=(0.60, 0.1, 0.18),
    stiffness=(5000.0, 5000.0, 1000.0, 150.0, 150.0, 150.0),
    damping=(300.0, 300.0, 110.0, 10.0, 10.0, 10.0),
    error_clip=(0.006, 0.006, 0.01, 0.1, 0.1, 0.1),
)
"""Stiff and well damped across the peg, for precision; soft along it, for contact: 30 N and 10 N at most.

Steps of 5 mm: with larger ones, the noise of an exploring policy would be far wider than the clearance."""


@dataclass(frozen=True)
class PegInsertConfig(TaskConfig):
    """Configuration of ``peg_insert``.

    Attributes:
        clearance: width of the hole minus width of the peg (20 mm): half of it lies on each side of a centred peg [m].
        position_range: half widths of the uniform displacement of the hole in x and y [m].
        yaw_range: half width of the uniform turn of the hole about the vertical [rad].
        grasp_range: half widths of the uniform displacement of the peg in the hand, along the fingers' faces (the
            hand's x axis) and along the peg [m].
        block_friction: sliding friction between block and peg.
    """

    name: str = "peg_insert"
    max_episode_steps: int = 60
    clearance: float = option(0.001, low=0.0003, high=0.02)
    position_range: tuple[float, ...] = (0.03, 0.03)
    yaw_range: float = option(0.15, low=0, high=0.6)
    grasp_range: tuple[float, ...] = (0.003, 0.004)
    block_friction: float = option(0.2, low=0, high=2)
    arm: ArmConfig = ARM
    controller: ControllerConfig = CONTROLLER

    def __post_init__(self) -> None:
        super().__post_init__()
        for key, largest in (("position_range", 0.08), ("grasp_range", 0.005)):
            values = getattr(self, key)
            valid = len(values) == 2 and all(0 <= value <= largest for value in values)
            require(valid, key, f"2 values in [0, {largest}]", values)
        gripper = self.arm.gripper_actuator
        require(gripper is not None, "arm.gripper_actuator", "named: the peg is held by the gripper", gripper)


class PegInsert(Task):
    """Insert a square peg, held by friction between the fingers, into the hole of a block on the table.

    The episode begins with the peg in the hand. A dropped peg is not picked up again: the episode continues to the time
    limit. Success: the tip is in the hole, below ``INSERTED_SHARE`` of its depth.

    Object state: the vector from the peg's tip to the middle of the hole's mouth (base frame) [m], and the same in
    units of ``FINE``, clipped to 1, which resolves the decisive fractions of a millimetre; the angle by which the peg
    must turn to fit, in [-pi/4, pi/4] as the peg is square, and the yaw of the hole [rad]; the horizontal part of the
    peg's axis, 0 when upright.

    Shaped terms: ``aligned`` (1 with the tip on the axis of the hole), ``inserted`` (share of the depth for success).
    """

    config_class = PegInsertConfig
    shaped_terms = ("aligned", "inserted")

    config: PegInsertConfig

    def build(self, spec: mujoco.MjSpec) -> None:
        peg_model.add_block(spec, self.config.clearance, self.config.block_friction)
        peg_model.add_peg(spec)
        aim_cameras(spec, CAMERAS)

    def bind(self, model: mujoco.MjModel) -> None:
        self._peg = model.body(peg_model.PEG_BODY).id
        self._tip = model.site(peg_model.TIP_SITE).id
        self._block = int(model.body(peg_model.BLOCK_BODY).mocapid[0])
        self._end_effector = model.site(self.config.arm.end_effector).id
        self._peg_qpos = int(model.joint(peg_model.PEG_BODY).qposadr[0])
        self._fingers = [int(model.joint(name).qposadr[0]) for name in self.config.arm.gripper_joints]

    def initialise(self, model: mujoco.MjModel, data: mujoco.MjData, rng: np.random.Generator) -> None:
        config = self.config
        spread = np.array(config.position_range)
        data.mocap_pos[self._block, :2] = np.array(HOLE_POSITION) + rng.uniform(-spread, spread)
        yaw = rng.uniform(-config.yaw_range, config.yaw_range)
        data.mocap_quat[self._block] = (math.cos(yaw / 2), 0.0, 0.0, math.sin(yaw / 2))

        # The peg's z axis points against the end effector's: half a turn about the hand's x axis.
        hand = data.site_xmat[self._end_effector].reshape(3, 3)
        rotation = hand @ np.diag([1.0, -1.0, -1.0])
        across, along = rng.uniform(-1, 1, 2) * config.grasp_range
        centre = np.array([across, 0.0, GRASP_HEIGHT - peg_model.PEG_LENGTH / 2 + along])
        start = self._peg_qpos
        data.qpos[start : start + 3] = data.site_xpos[self._end_effector] + hand @ centre
        mujoco.mju_mat2Quat(data.qpos[start + 3 : start + 7], rotation.ravel())
        data.qpos[self._fingers] = peg_model.PEG_WIDTH / 2 - PAD_SQUEEZE

    def hole_yaw(self, data: mujoco.MjData) -> float:
        """Return the yaw of the hole [rad]."""
        quaternion = data.mocap_quat[self._block]
        return 2.0 * math.atan2(float(quaternion[3]), float(quaternion[0]))

    def tip_to_hole(self, data: mujoco.MjData) -> Array:
        """Return the vector (3,) from the peg's tip to the middle of the hole's mouth, in the base frame [m]."""
        mouth = data.mocap_pos[self._block] + (0.0, 0.0, peg_model.HOLE_DEPTH)
        away: Array = mouth - data.site_xpos[self._tip]
        return away

    def yaw_to_hole(self, data: mujoco.MjData) -> float:
        """Return the angle by which the square peg must turn about the vertical to fit, in [-pi/4, pi/4] [rad]."""
        rotation = data.xmat[self._peg]
        quarter = math.pi / 2
        away = self.hole_yaw(data) - math.atan2(float(rotation[3]), float(rotation[0]))
        return (away + quarter / 2) % quarter - quarter / 2

    def depth(self, data: mujoco.MjData) -> float:
        """Return the depth of the tip in the hole, 0 outside [m]."""
        x, y, z = self.tip_to_hole(data)
        yaw = self.hole_yaw(data)
        sideways = max(abs(math.cos(yaw) * x + math.sin(yaw) * y), abs(math.cos(yaw) * y - math.sin(yaw) * x))
        return max(0.0, float(z)) if sideways <= peg_model.PEG_WIDTH / 2 else 0.0

    def object_state(self, data: mujoco.MjData) -> dict[str, Array]:
        away = self.tip_to_hole(data)
        return {
            "tip_to_hole": away,
            "tip_to_hole_fine": np.clip(away / FINE, -1.0, 1.0),
            "yaw_to_hole": np.array([self.yaw_to_hole(data)]),
            "hole_yaw": np.array([self.hole_yaw(data)]),
            "peg_tilt": data.xmat[self._peg].reshape(3, 3)[:2, 2],
        }

    def success(self, data: mujoco.MjData) -> bool:
        return self.depth(data) >= INSERTED_SHARE * peg_model.HOLE_DEPTH

    def reward_terms(self, data: mujoco.MjData) -> dict[str, float]:
        aside = float(np.linalg.norm(self.tip_to_hole(data)[:2]))
        return {
            "aligned": 1.0 - math.tanh(50.0 * aside),
            "inserted": min(1.0, self.depth(data) / (INSERTED_SHARE * peg_model.HOLE_DEPTH)),
        }

    def expert(self, backend: ArmSimulation, rng: np.random.Generator) -> FunctionExpert:
        """Return an expert that moves down a funnel to the hole, then straight in, from the current state alone."""
        allowed = ALLOWED * self.config.clearance
        allowed_turn = ALLOWED * self.config.clearance / peg_model.PEG_WIDTH

        def act() -> NDArray[np.float32]:
            data = backend.data
            away, turn = self.tip_to_hole(data), self.yaw_to_hole(data)
            hand = backend.arm.position(data)
            # The error of the peg beyond the tolerance. The larger it is, the higher the tip stays above the block.
            error = max(float(np.linalg.norm(away[:2])) - allowed, TURN_LEVER * (abs(turn) - allowed_turn), 0.0)
            rise = (
                min(FUNNEL_SLOPE * error, FUNNEL_TOP)
                + min(away[2], 0.0)
                - DOWN * max(0.0, 1.0 - error / (FADE * self.config.clearance))
            )
            if away[2] > INSIDE:
                rise = -DOWN
            cosine, sine = math.cos(turn), math.sin(turn)
            about_z = np.array([[cosine, -sine, 0.0], [sine, cosine, 0.0], [0.0, 0.0, 1.0]])
            rotation = about_z @ backend.arm.rotation(data)
            return backend.action_towards(
                hand + np.array([AIM * away[0], AIM * away[1], rise]), rotation=rotation, gripper=1.0
            )

        return FunctionExpert(act)
