"""``cable_route``: lay a flexible cable, held by its end, into two clips."""

import math
from dataclasses import dataclass

import mujoco
import numpy as np
from numpy.typing import NDArray

from robo_rl.core import ConfigError, Observation, option, require

from ..config import ArmConfig, ControllerConfig, TaskConfig
from ..simulation import ArmSimulation
from . import cable_model
from .base import Array, Task, aim_cameras

ANCHOR = np.array([0.5, -0.27])
"""Position at which the cable is fixed to the table (x, y) [m]. It leaves in the direction of y."""
CLIPS = ("clip1", "clip2")
CLIP_POSITIONS = ((0.5, -0.12), (0.5, 0.03))
"""Middles of the regions in which the clips are placed (x, y) [m], in the order of the cable."""
FINE = 0.015
"""Distance that equals 1 in the fine part of the observation [m]."""
PAD_SQUEEZE = 0.0002
"""Deformation of each rubber pad under the grip, with which the tab is at rest from the start [m]."""

# Parameters of the expert, all in [m]: four heights of the end effector, and thresholds at the clips.
LIFTED = 0.27
"""Height at which the cable is off the table nearly up to its anchor."""
OVER = 0.22
"""Height at which the cable hangs clear over the first clip."""
DRAPED = 0.11
"""Height at which the cable lies in the first clip and rises from there clear over the second."""
DOWN = 0.016
"""Height at which the cable lies on the table up to the hand."""
BLOCKED = cable_model.CLIP_TOP + cable_model.RADIUS + 0.0025
"""Height of the cable at a clip below which it cannot move over the clip from the side."""
CORRECTION = 0.02
"""Largest correction for a stiff cable that does not point in the direction of the hand."""
SLACK = 0.004
"""Length of cable that bends use up."""
ALIGNED = 0.012
"""Sideways distance from the middle of a clip within which the cable is lowered into it."""

CAMERAS = (
    ("front", (0.98, -0.06, 0.40), (0.50, -0.06, 0.04)),
    ("view", (0.98, -0.50, 0.40), (0.44, -0.07, 0.07)),
)
"""Name, position and target [m] of cameras that are close, because the cable is thin."""


HOME = (0.1974, 0.05301, 0.0, -2.33564, 0.0, 2.38865, -0.588)
ARM = ArmConfig(home=HOME, home_noise=0.01, home_opening=0.0)
"""The hand is 21 cm above the table, turned by a quarter, so that its fingers hold the cable from both sides.

More noise would tighten the cable in some episodes and lay it on the first clip in others."""

CONTROLLER = ControllerConfig(
    action_axes="xyz",
    translation_scale=0.03,
    error_clip=(0.012, 0.012, 0.012, 0.1, 0.1, 0.1),
    workspace_low=(0.36, -0.05, 0.016),
    workspace_high=(0.64, 0.20, 0.30),
)
"""Gentle: at most 24 N in each direction, so that a taut cable stays in the hand."""


@dataclass(frozen=True)
class CableRouteConfig(TaskConfig):
    """Configuration of ``cable_route``.

    Attributes:
        position_range: half widths of the uniform displacement of each clip in x and y [m].
        yaw_range: half width of the uniform turn of each clip about the vertical [rad].
    """

    name: str = "cable_route"
    max_episode_steps: int = 60
    position_range: tuple[float, ...] = (0.035, 0.01)
    yaw_range: float = option(0.15, low=0, high=0.3)
    arm: ArmConfig = ARM
    controller: ControllerConfig = CONTROLLER

    def __post_init__(self) -> None:
        super().__post_init__()
        values = self.position_range
        valid = len(values) == 2 and 0 <= values[0] <= 0.04 and 0 <= values[1] <= 0.02
        require(valid, "position_range", "2 values, in [0, 0.04] and in [0, 0.02]", values)
        gripper = self.arm.gripper_actuator
        require(gripper is not None, "arm.gripper_actuator", "named: the cable is held by the gripper", gripper)


class CableRoute(Task):
    """Lay a cable, one end fixed to the table and the other in the hand, into two clips one after the other.

    The episode begins with the tab at the cable's end between the closed fingers, which hold it by friction; actions do
    not move them. Success: the cable passes through the channels of both clips below their rims.

    Object state: for each clip the vector from the end effector to the clip's foot (base frame) [m], its turn from its
    nominal direction [rad], and where the cable passes it: sideways and up from the clip's foot, in the clip's frame
    [m], and the same in units of ``FINE``, clipped to 1, which resolves millimetres; the vector from the end effector
    to the middle of the cable [m].

    Shaped terms: ``first``, ``second`` (1 with the cable in this clip, 0 with it far away).
    """

    config_class = CableRouteConfig
    shaped_terms = ("first", "second")

    def __init__(self, config: CableRouteConfig) -> None:
        self.config: CableRouteConfig = config

    def build(self, spec: mujoco.MjSpec) -> None:
        cable_model.add_cable(spec, (float(ANCHOR[0]), float(ANCHOR[1])), yaw=math.pi / 2)
        for name in CLIPS:
            cable_model.add_clip(spec, name)
        aim_cameras(spec, CAMERAS)

    def bind(self, model: mujoco.MjModel) -> None:
        self.cable = cable_model.CableState(model, CLIPS)
        self._joint_qpos = [int(model.joint(name).qposadr[0]) for name in cable_model.joint_names()]
        self._end_effector = model.site(self.config.arm.end_effector).id
        self._fingers = [int(model.joint(name).qposadr[0]) for name in self.config.arm.gripper_joints]

    def initialise(self, model: mujoco.MjModel, data: mujoco.MjData, rng: np.random.Generator) -> None:
        config = self.config
        for clip, middle in zip(self.cable.clips, CLIP_POSITIONS, strict=True):
            data.mocap_pos[clip, :2] = middle + rng.uniform(-1, 1, 2) * config.position_range
            yaw = math.pi / 2 + rng.uniform(-config.yaw_range, config.yaw_range)
            data.mocap_quat[clip] = (math.cos(yaw / 2), 0.0, 0.0, math.sin(yaw / 2))

        # The tab's x axis is the hand's, and its z axis points up: half a turn about x.
        tab = data.site_xmat[self._end_effector].reshape(3, 3) @ np.diag([1.0, -1.0, -1.0])
        start = np.array([*ANCHOR, cable_model.ANCHOR_HEIGHT])
        end = data.site_xpos[self._end_effector] - cable_model.TAB_LENGTH / 2 * tab[:, 0]
        span = float(np.linalg.norm(end - start))
        if span >= cable_model.LENGTH:
            raise ConfigError(
                f"arm.home puts the hand {span:.3f} m from the cable's anchor at {start.tolist()}, but the cable is "
                f"only {cable_model.LENGTH:.2f} m long; choose a home (and home_noise) nearer to it"
            )
        previous = cable_model.frame_along(np.array([0.0, 1.0, 0.0]))
        for address, frame in zip(self._joint_qpos, [*cable_model.hanging_frames(start, end), tab], strict=True):
            mujoco.mju_mat2Quat(data.qpos[address : address + 4], (previous.T @ frame).ravel())
            previous = frame
        data.qpos[self._fingers] = cable_model.TAB_WIDTH / 2 - PAD_SQUEEZE

    def object_state(self, data: mujoco.MjData) -> dict[str, Array]:
        cable, hand = self.cable, data.site_xpos[self._end_effector]
        state: dict[str, Array] = {}
        for number, name in enumerate(CLIPS):
            state[f"to_{name}"] = cable.foot(data, number) - hand
            state[f"{name}_yaw"] = np.array([cable.clip_yaw(data, number)])
            passage = cable.passage(data, number)
            state[f"cable_at_{name}"] = passage
            state[f"cable_at_{name}_fine"] = np.clip(passage / FINE, -1.0, 1.0)
        state["to_cable"] = cable.points(data)[cable_model.SEGMENTS // 2] - hand
        return state

    def success(self, data: mujoco.MjData) -> bool:
        return all(self.cable.laid(data, number) for number in range(len(CLIPS)))

    def reward_terms(self, data: mujoco.MjData) -> dict[str, float]:
        terms = {}
        for number, name in enumerate(self.shaped_terms):
            sideways, up = self.cable.passage(data, number)
            outside = (abs(sideways) - cable_model.CHANNEL_WIDTH / 2, up - cable_model.RIM_HEIGHT)
            terms[name] = 1.0 - math.tanh(15.0 * math.hypot(*(max(0.0, float(part)) for part in outside)))
        return terms

    def expert(self, backend: ArmSimulation, rng: np.random.Generator) -> "CableExpert":
        return CableExpert(self.cable, backend)


class CableExpert:
    """A scripted expert: over the first clip, down, over the second, down, chosen from the current state alone.

    The hand stays at the distance from the anchor or the first clip at which the cable hangs without tension. A taut
    cable would jump out of the clip, and a slack one would fall beside it.
    """

    def __init__(self, cable: cable_model.CableState, simulation: ArmSimulation) -> None:
        self._cable = cable
        self._simulation = simulation

    def reset(self) -> None:
        """Do nothing: the expert has no memory."""

    def act(self, observation: Observation) -> NDArray[np.float32]:
        """Return the action (3,) for the simulator's current state; ``observation`` is ignored."""
        simulation, data = self._simulation, self._simulation.data
        first = self._cable.foot(data, 0)[:2]
        remaining = cable_model.LENGTH - float(np.linalg.norm(first - ANCHOR))
        if self._beside(data, int(self._holds(data, 0))):
            hand = simulation.arm.position(data)[:2]
            return simulation.action_towards(_hand(ANCHOR, hand, cable_model.LENGTH, LIFTED))
        if self._holds(data, 0):
            height = DOWN if self._aligned(data, 1) else DRAPED
            return simulation.action_towards(_hand(first, self._aim(data, 1), remaining, height))
        if self._aligned(data, 0):
            return simulation.action_towards(_hand(first, 2 * first - ANCHOR, remaining, DRAPED))
        return simulation.action_towards(_hand(ANCHOR, self._aim(data, 0), cable_model.LENGTH, OVER))

    def _holds(self, data: mujoco.MjData, number: int) -> bool:
        sideways, up = self._cable.passage(data, number)
        return bool(abs(sideways) < cable_model.CHANNEL_WIDTH / 2 and up < cable_model.RIM_HEIGHT)

    def _aligned(self, data: mujoco.MjData, number: int) -> bool:
        return bool(abs(self._cable.passage(data, number)[0]) < ALIGNED)

    def _beside(self, data: mujoco.MjData, number: int) -> bool:
        """Return whether the cable lies beside a clip, so low that it cannot move over the clip."""
        return not self._aligned(data, number) and bool(self._cable.passage(data, number)[1] < BLOCKED)

    def _aim(self, data: mujoco.MjData, number: int) -> Array:
        """Return the point (2,) [m] towards which to lead the cable over a clip: displaced opposite to its error."""
        yaw = math.pi / 2 + self._cable.clip_yaw(data, number)
        correction = float(np.clip(self._cable.passage(data, number)[0], -CORRECTION, CORRECTION))
        return self._cable.foot(data, number)[:2] - correction * np.array([-math.sin(yaw), math.cos(yaw)])


def _hand(origin: Array, target: Array, length: float, height: float) -> Array:
    """Return the end effector's position (3,) [m] at which ``length`` of cable hangs from it to ``origin`` (2,).

    The cable leaves ``origin`` level in the direction of ``target`` (2,), and rises to the end effector's ``height`` as
    a parabola: over the distance x, its length is about x + 2 height^2 / (3 x).
    """
    along = (target - origin) / np.linalg.norm(target - origin)
    distance = length - SLACK - 2 * height**2 / (3 * length) + cable_model.TAB_LENGTH / 2
    return np.array([*(origin + distance * along), height])
