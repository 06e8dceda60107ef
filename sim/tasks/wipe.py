"""``wipe``: wipe a line of spots off a board with a force that is neither too small nor too large."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from robo_rl.core import option, require

from ..config import ArmConfig, ControllerConfig, TaskConfig
from ..observation import ArmState
from ..simulation import ArmSimulation
from . import wipe_model
from .base import Array, FunctionExpert, Task, aim_cameras, raised

WIPING_SPEED = 0.01
"""Smallest speed of the pad along the board at which it wipes [m/s]."""
MARGIN = 0.02
"""Smallest distance of a spot from the board's edge [m]."""

# Parameters of the expert.
APPROACH = 0.4
"""Share of the way to the line that one action of the approach commands."""
HOVER = 0.035
"""Height of the pad above the nominal surface while it is moved over the line [m]."""
LOW = 0.008
"""Distance below that height from which the pad is on its way down to the board [m]."""
LEAD = 0.025
"""Distance before the next spot at which the pad moves down [m]."""
ASIDE = 0.008
"""Largest distance from that point [m]."""
NEAR = 0.06
"""Distance from the next spot within which the pad stays down [m]."""
TURNING = 0.005
"""Distance from the next spot within which the pad keeps its direction along the line [m]."""
DOWN = 0.16
"""Share of the fastest motion at which the pad moves down until it touches the board."""
ACROSS = 0.4
"""The same for its motion along the board."""
TOUCH = 1.0
"""Force from which the pad is assumed to touch the board [N]."""
AIM = 0.45
"""Target force of the expert, as a share of the range from the smallest to the largest."""
FEEDBACK = 0.3
"""Gain of the force correction by the force error."""
UP = np.array([0.0, 0.0, 1.0])

CAMERAS = (
    ("front", (1.0, 0.0, 0.46), (0.49, 0.0, 0.06)),
    ("view", (1.05, -0.70, 0.62), (0.42, 0.0, 0.13)),
)
"""Name, position and target [m] of cameras that are close, because the spots are small."""

ARM = ArmConfig(home=(0.0, 0.08053, 0.0, -2.46315, 0.0, 2.54368, math.pi / 4), home_opening=0.35)
"""The pad is 8 cm above the board, and the fingers hold its handle."""

CONTROLLER = ControllerConfig(
    action_axes="xyz",
    translation_scale=0.02,
    workspace_low=(0.30, -0.26, 0.03),
    workspace_high=(0.70, 0.26, 0.30),
    damping=(110.0, 110.0, 200.0, 12.0, 12.0, 7.0),
)
"""On the board an action along z is a force, of 40 N at most: stiffness times translation. Damped for first contact."""


@dataclass(frozen=True)
class WipeConfig(TaskConfig):
    """Configuration of ``wipe``.

    Attributes:
        spots: number of spots.
        spacing: distance between the centres of neighbouring spots [m].
        area_size: edges of the rectangle, in the middle of the board, in which the centre of the line lies (x, y) [m].
        height_range: half width of the uniform displacement of the board's height, which is not observed [m].
        tilt_range: largest angle between board and table, about a random horizontal axis, not observed either [rad].
        force_low: smallest force of the pad on the board that wipes [N].
        force_high: largest such force; above it the pad scratches the board [N].
    """

    name: str = "wipe"
    max_episode_steps: int = 220
    arm: ArmConfig = ARM
    controller: ControllerConfig = CONTROLLER
    spots: int = option(8, low=2, high=12)
    spacing: float = option(0.028, low=0.02, high=0.1)
    area_size: tuple[float, ...] = (0.08, 0.16)
    height_range: float = option(0.01, low=0, high=0.015)
    tilt_range: float = option(0.05, low=0, high=0.05)
    force_low: float = option(4.0, above=0)
    force_high: float = 12.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.force_high > self.force_low, "force_high", f"above force_low={self.force_low}", self.force_high)
        valid = len(self.area_size) == 2 and min(self.area_size) >= 0
        require(valid, "area_size", "2 values, 0 or more", self.area_size)
        rooms = zip(wipe_model.BOARD_HALF[:2], self.area_size, strict=True)
        longest = max(0.0, min(2 * (half - MARGIN) - edge for half, edge in rooms))
        expected = f"at most {longest:.3f} m / (spots - 1), so that the line lies on the board"
        require((self.spots - 1) * self.spacing <= longest + 1e-9, "spacing", expected, self.spacing)


class Wipe(Task):
    """Wipe a line of spots off a board of uncertain height, with a pad that is fixed to the hand.

    The force is that on the wrist along the board's normal, the mean of a control period. A spot is wiped at the end of
    a period in which the force was in [``force_low``, ``force_high``], if the pad touches the board above the spot and
    moves along the board at ``WIPING_SPEED`` or faster. Success: all spots are wiped. A period in which the force was
    above ``force_high`` scratches the board, which ends the episode without success.

    An episode that begins where the last one ended, by a reset without a seed, has all spots again, in their places.

    Object state: the vector from the middle of the pad's face to the next spot (base frame), as if the board were level
    at its nominal height [m], where the next spot is the first of the line that is not wiped, or the last; the
    direction of the line, from the end that is nearer to the base; for each spot whether it is wiped, and whether the
    board is scratched (0 or 1).

    Shaped terms: ``near`` (1 with the pad at the next spot), ``pressed`` (0 or 1: the force is within its bounds),
    ``wiped`` (share of the spots), ``intact`` (1 until the board is scratched).
    """

    config_class = WipeConfig
    shaped_terms = ("near", "pressed", "wiped", "intact")

    config: WipeConfig

    def build(self, spec: mujoco.MjSpec) -> None:
        wipe_model.add_board(spec, self.config.spots)
        wipe_model.add_pad(spec, self.config.arm.end_effector)
        aim_cameras(spec, CAMERAS)

    def bind(self, model: mujoco.MjModel) -> None:
        self.board = wipe_model.Board(model, self.config.spots)
        self._model = model
        self._arm = ArmState(model, self.config.arm)
        self._force = self._arm.names.index("wrist_force_x")
        self._velocity = self._arm.names.index("end_effector_vx")
        self._wrist = int(model.sensor("wrist_force").objid[0])
        self._pad = model.site(wipe_model.PAD_SITE).id
        self._touching = {model.geom(wipe_model.PAD_BODY).id, model.geom(wipe_model.BOARD_BODY).id}

    def initialise(self, model: mujoco.MjModel, data: mujoco.MjData, rng: np.random.Generator) -> None:
        config = self.config
        middle = wipe_model.BOARD_CENTRE + rng.uniform(-0.5, 0.5, 2) * config.area_size
        angle = rng.uniform(-math.pi / 2, math.pi / 2)  # away from the base
        along = (np.arange(config.spots) - (config.spots - 1) / 2) * config.spacing
        spots = middle + np.outer(along, (math.cos(angle), math.sin(angle)))
        height = wipe_model.BOARD_HEIGHT + rng.uniform(-config.height_range, config.height_range)
        tilt, axis = rng.uniform(0, config.tilt_range), rng.uniform(-math.pi, math.pi)
        self.board.place(data, height, tilt, axis, spots)

    def begin_here(self, data: mujoco.MjData) -> None:
        self.board.renew(data)

    def force(self, data: mujoco.MjData, direction: Array) -> float:
        """Return the force on the wrist along ``direction`` (3,) in the base frame [N]."""
        force = self._arm.read(data)[self._force : self._force + 3]
        return float(data.site_xmat[self._wrist].reshape(3, 3) @ force @ direction)

    def follow(self, data: mujoco.MjData) -> dict[str, Any]:
        config, normal = self.config, self.board.normal(data)
        force = self.force(data, normal)
        if force > config.force_high:
            self.board.scratch(data, data.site_xpos[self._pad])
        elif force >= config.force_low and self._wipes(data, normal):
            self.board.wipe(data, self._below(data))
        else:
            return {}
        mujoco.mj_kinematics(self._model, data)  # so that images show it at once
        return {}

    def object_state(self, data: mujoco.MjData) -> dict[str, Array]:
        return {
            "to_next_spot": self._to_next(data),
            "line_direction": self.board.direction(data),
            "wiped": self.board.wiped(data).astype(np.float64),
            "scratched": np.array([float(self.board.scratched(data))]),
        }

    def success(self, data: mujoco.MjData) -> bool:
        return bool(self.board.wiped(data).all()) and not self.board.scratched(data)

    def reward_terms(self, data: mujoco.MjData) -> dict[str, float]:
        wiped, force = self.board.wiped(data), self.force(data, self.board.normal(data))
        return {
            "near": 1.0 if wiped.all() else 1.0 - math.tanh(5.0 * math.hypot(*self._to_next(data).tolist())),
            "pressed": float(self.config.force_low <= force <= self.config.force_high),
            "wiped": float(wiped.mean()),
            "intact": float(not self.board.scratched(data)),
        }

    def ending(self, rewards: Mapping[str, float]) -> tuple[bool, bool]:
        ended, truncated = super().ending(rewards)
        return ended or rewards["intact"] == 0, truncated

    def expert(self, backend: ArmSimulation, rng: np.random.Generator) -> FunctionExpert:
        """Return an expert that moves down before the first spot, along the line with force feedback, and then up.

        It uses only observed quantities: the object state, the pose, and the force on the wrist.
        """
        config = self.config
        full, stiffness = config.controller.translation_scale, config.controller.stiffness[2]
        wanted = config.force_low + AIM * (config.force_high - config.force_low)

        def act() -> NDArray[np.float32]:
            data = backend.data
            hand, away, direction = backend.arm.position(data), self._to_next(data), self.board.direction(data)
            distance, height = math.hypot(away[0], away[1]), -away[2]
            if self.board.wiped(data).all():
                return backend.action_towards(raised(hand, HOVER - height))
            if distance > NEAR and height < HOVER - LOW:  # too low to pass over the board
                return backend.action_towards(raised(hand, HOVER - height))
            start = away[:2] - LEAD * direction
            if height > HOVER - LOW and math.hypot(*start) > ASIDE:
                # Slower and slower, because a pad that arrives fast and late presses too hard.
                return backend.action_towards(hand + APPROACH * np.array([*start, HOVER - height]))
            force = self.force(data, UP)
            if force < TOUCH:
                return backend.action_towards(raised(hand, -DOWN * full))
            way = away[:2] / distance if distance > TURNING else direction
            down = (wanted + FEEDBACK * (wanted - force)) / stiffness
            return backend.action_towards(hand + np.array([*(ACROSS * full * way), -np.clip(down, 0.0, full)]))

        return FunctionExpert(act)

    def _wipes(self, data: mujoco.MjData, normal: Array) -> bool:
        """Return whether the pad touches the board and moves along it."""
        velocity = self._arm.read(data)[self._velocity : self._velocity + 3]
        along = velocity - velocity @ normal * normal
        touches = any({*pair} == self._touching for pair in data.contact.geom.tolist())
        return touches and float(np.linalg.norm(along)) >= WIPING_SPEED

    def _below(self, data: mujoco.MjData) -> NDArray[np.bool_]:
        """Return which spots (n,) are below the pad."""
        away = self.board.spots(data) - data.site_xpos[self._pad]
        below: NDArray[np.bool_] = (
            np.abs(away @ data.site_xmat[self._pad].reshape(3, 3)[:, :2]) <= wipe_model.PAD_HALF
        ).all(axis=1)
        return below

    def _next(self, data: mujoco.MjData) -> int:
        """Return the index of the first spot that is not wiped, or of the last one."""
        wiped = self.board.wiped(data)
        return self.config.spots - 1 if wiped.all() else int(np.argmin(wiped))

    def _to_next(self, data: mujoco.MjData) -> Array:
        x, y, _ = self.board.spots(data)[self._next(data)]
        away: Array = np.array([x, y, wipe_model.BOARD_HEIGHT]) - data.site_xpos[self._pad]
        return away
