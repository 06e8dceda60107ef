"""``bin_relocate``: carry a cube from one bin to the other, and back for learning without resets."""

import math
from dataclasses import dataclass

import mujoco
import numpy as np
from numpy.typing import NDArray

from robo_rl.core import ConfigError, nearest, option, require

from ..config import ControllerConfig, TaskConfig
from ..simulation import ArmSimulation
from .base import Array, FunctionExpert, GraspSensor, Task, add_free_box, aim_cameras, cube_turn, raised, set_free_pose

CONTROLLER = ControllerConfig(action_axes="xyz+gripper")
DIRECTIONS = ("forward", "backward", "random")

CUBE = "cube"
MARKER = "goal_marker"
BIN_X = 0.5
BIN_Y = (-0.125, 0.125)
"""Middles of the two bins [m]; ``forward`` leads from the first to the second."""
HALF_WIDTH = 0.10
"""Half the inner width of a bin, in x and y [m]."""
WALL_HEIGHT = 0.025
"""Wall height, low enough for the fingers to reach the upper half of a cube anywhere in the bin [m]."""
WALL_THICKNESS = 0.008
CUBE_MASS = 0.1
"""Mass of the cube [kg]."""

COLOURS = ((0.22, 0.42, 0.62, 1.0), (0.28, 0.30, 0.34, 1.0))
FLOOR_COLOURS = ((0.62, 0.72, 0.82, 1.0), (0.70, 0.72, 0.74, 1.0))
CUBE_COLOUR = (0.93, 0.45, 0.10, 1.0)
MARKER_COLOUR = (0.20, 0.68, 0.36, 1.0)

REST_SPEED = 0.05
"""Speed below which the cube counts as at rest [m/s]."""

# Parameters of the expert, all in [m].
GRASP_HEIGHT = 0.014
"""Height of the end effector above the middle of the cube."""
HOVER = 0.07
"""The same height while the gripper is moved over the cube."""
CARRY_HEIGHT = 0.075
"""Height of the middle of the cube while it passes the walls."""
RELEASE_HEIGHT = 0.035
"""The same height when the cube is released."""
RELEASE_RADIUS = 0.04
"""Distance from the middle of the goal within which the cube may be released."""

CAMERAS = (
    ("front", (1.02, 0.0, 0.52), (0.49, 0.0, 0.04)),
    ("view", (1.10, -0.75, 0.66), (0.40, 0.0, 0.14)),
)
"""Name, position and target [m] of the cameras."""


@dataclass(frozen=True)
class BinRelocateConfig(TaskConfig):
    """Configuration of ``bin_relocate``.

    Attributes:
        direction: ``forward`` (from the right bin to the left one, as seen from the arm), ``backward`` or ``random``.
            An episode that begins where the last one ended, by a reset without a seed, leads away from the bin with the
            cube, so that a success sets up the next episode; if the cube is in neither bin, the direction stays the
            same.
        cube_size: edge of the cube [m].
        start_range: half widths of the square in the middle of the start bin in which the cube lies, in x and y [m].
        cube_yaw: largest turn of the cube about the vertical, either way [rad].
    """

    name: str = "bin_relocate"
    max_episode_steps: int = 60
    controller: ControllerConfig = CONTROLLER
    direction: str = "random"
    cube_size: float = option(0.045, low=0.035, high=0.06)
    start_range: tuple[float, ...] = (0.06, 0.06)
    cube_yaw: float = option(0.2, low=0, high=np.pi / 4)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.direction not in DIRECTIONS:
            raise ConfigError(f"direction: unknown value {self.direction!r}; {nearest(self.direction, DIRECTIONS)}")
        valid = len(self.start_range) == 2 and all(0 <= value <= 0.065 for value in self.start_range)
        require(valid, "start_range", "2 values in [0, 0.065]", self.start_range)


class BinRelocate(Task):
    """Move a cube from one of two bins to the other. Success: it rests in the goal bin, and no finger touches it.

    A green plate marks the goal bin, so that images show the direction.

    Object state: the vectors from the end effector to the cube and from the cube to the middle of the goal bin's floor
    (base frame) [m]; cosine and sine of four times the cube's yaw, as a cube looks the same after a quarter turn; how
    upright its most upright axis is (1: flat on a face); the direction, 1 forward or -1 backward.

    Shaped terms: ``near`` (1 with the cube between the fingers), ``grasped`` (0 or 1), ``carried`` (1 with the cube in
    the middle of the goal bin).
    """

    config_class = BinRelocateConfig
    shaped_terms = ("near", "grasped", "carried")

    def __init__(self, config: BinRelocateConfig) -> None:
        self.config: BinRelocateConfig = config
        self._goal = 1

    def build(self, spec: mujoco.MjSpec) -> None:
        for number, y in enumerate(BIN_Y):
            _add_bin(spec, number, y)
        marker = spec.worldbody.add_body(name=MARKER, mocap=True)
        marker.add_geom(
            type=mujoco.mjtGeom.mjGEOM_BOX, pos=(0, 0, 0.001), size=(0.05, 0.05, 0.001), rgba=MARKER_COLOUR,
            contype=0, conaffinity=0,
        )  # fmt: skip
        half = self.config.cube_size / 2
        add_free_box(spec, CUBE, (half, half, half), CUBE_MASS, CUBE_COLOUR)
        aim_cameras(spec, CAMERAS)

    def bind(self, model: mujoco.MjModel) -> None:
        self._cube = model.body(CUBE).id
        joint = model.joint(CUBE)
        self._qpos = slice(int(joint.qposadr[0]), int(joint.qposadr[0]) + 7)
        self._velocity = slice(int(joint.dofadr[0]), int(joint.dofadr[0]) + 3)
        self._marker = int(model.body(MARKER).mocapid[0])
        self._end_effector = model.site(self.config.arm.end_effector).id
        self._grasp = GraspSensor(model, self.config.arm, CUBE)

    def begin_here(self, data: mujoco.MjData) -> None:
        start = self.bin_of(data)
        if start is None:  # the marker shows the goal
            self._goal = int(np.argmin(np.abs(np.array(BIN_Y) - data.mocap_pos[self._marker, 1])))
        else:
            self._goal = 1 - start
        data.mocap_pos[self._marker, :2] = self.goal[:2]

    def initialise(self, model: mujoco.MjModel, data: mujoco.MjData, rng: np.random.Generator) -> None:
        config = self.config
        backward = bool(rng.integers(2)) if config.direction == "random" else config.direction == "backward"
        displacement = rng.uniform(-1, 1, 2) * config.start_range
        yaw = rng.uniform(-config.cube_yaw, config.cube_yaw)
        start = int(backward)
        set_free_pose(
            model, data, CUBE, (BIN_X + displacement[0], BIN_Y[start] + displacement[1], config.cube_size / 2), yaw
        )
        self._goal = 1 - start
        data.mocap_pos[self._marker, :2] = self.goal[:2]

    @property
    def goal(self) -> Array:
        """Middle (3,) of the goal bin's floor [m]."""
        return np.array([BIN_X, BIN_Y[self._goal], 0.0])

    @property
    def direction(self) -> int:
        """Direction: 1 forward, -1 backward."""
        return 1 if self._goal == 1 else -1

    def bin_of(self, data: mujoco.MjData) -> int | None:
        """Return the index of the bin that contains the middle of the cube, 0 or 1, or None.

        Above one edge length, the cube is held or lies on a wall, and is in neither bin.
        """
        x, y, z = data.qpos[self._qpos][:3]
        if abs(x - BIN_X) >= HALF_WIDTH or z >= self.config.cube_size:
            return None
        return next((number for number, middle in enumerate(BIN_Y) if abs(y - middle) < HALF_WIDTH), None)

    def object_state(self, data: mujoco.MjData) -> dict[str, Array]:
        turn, upright = cube_turn(data.xmat[self._cube].reshape(3, 3))
        return {
            "to_cube": self._to_cube(data),
            "cube_to_goal": self.goal - data.xpos[self._cube],
            "cube_turn": turn,
            "cube_upright": upright,
            "direction": np.array([float(self.direction)]),
        }

    def success(self, data: mujoco.MjData) -> bool:
        at_rest = bool(np.linalg.norm(data.qvel[self._velocity]) < REST_SPEED)
        return self.bin_of(data) == self._goal and at_rest and not self._grasp.touches(data)

    def reward_terms(self, data: mujoco.MjData) -> dict[str, float]:
        away = raised(self.goal, self.config.cube_size / 2) - data.xpos[self._cube]
        return {
            "near": 1.0 - math.tanh(5.0 * math.hypot(*self._to_cube(data).tolist())),
            "grasped": float(self._grasp.holds(data)),
            "carried": 1.0 - math.tanh(5.0 * math.hypot(*away.tolist())),
        }

    def expert(self, backend: ArmSimulation, rng: np.random.Generator) -> FunctionExpert:
        """Return an expert that picks up the cube, carries it over and releases it, from the current state alone."""

        def act() -> NDArray[np.float32]:
            data = backend.data
            cube, hand = data.xpos[self._cube], backend.arm.position(data)
            far = float(np.linalg.norm((self.goal - cube)[:2])) > RELEASE_RADIUS
            if not far and cube[2] <= RELEASE_HEIGHT:
                return backend.action_towards(hand, gripper=-1.0)
            if self._grasp.holds(data):
                if far and cube[2] < CARRY_HEIGHT - 0.02:
                    return backend.action_towards(raised(hand, CARRY_HEIGHT - cube[2]), gripper=1.0)
                height = CARRY_HEIGHT if far else RELEASE_HEIGHT - 0.01
                place = self.goal - (cube - hand)
                return backend.action_towards(raised(place, height), gripper=1.0)
            above = hand[2] - cube[2] - GRASP_HEIGHT
            distance = float(np.linalg.norm((cube - hand)[:2]))
            if distance < 0.01 and above < 0.008:
                return backend.action_towards(raised(cube, GRASP_HEIGHT), gripper=1.0)
            if distance < 0.015:
                return backend.action_towards(raised(cube, GRASP_HEIGHT), gripper=-1.0)
            if distance > 0.05 and above < 0.03:  # too low to cross the walls
                return backend.action_towards(raised(hand, HOVER), gripper=-1.0)
            return backend.action_towards(raised(cube, HOVER), gripper=-1.0)

        return FunctionExpert(act)

    def _to_cube(self, data: mujoco.MjData) -> Array:
        away: Array = data.xpos[self._cube] - data.site_xpos[self._end_effector]
        return away


def _add_bin(spec: mujoco.MjSpec, number: int, y: float) -> None:
    """Add four walls on the table and a coloured floor without contacts (geom ``bin_floor<number>``)."""
    world, box = spec.worldbody, mujoco.mjtGeom.mjGEOM_BOX
    world.add_geom(
        name=f"bin_floor{number}", type=box, pos=(BIN_X, y, 0.0002), size=(HALF_WIDTH, HALF_WIDTH, 0.0002),
        rgba=FLOOR_COLOURS[number], contype=0, conaffinity=0,
    )  # fmt: skip
    half, thick = HALF_WIDTH, WALL_THICKNESS / 2
    middle, length = half + thick, half + 2 * thick
    for sign in (-1, 1):
        for pos, size in (
            ((BIN_X + sign * middle, y), (thick, length)),
            ((BIN_X, y + sign * middle), (half, thick)),
        ):
            world.add_geom(
                type=box, pos=(*pos, WALL_HEIGHT / 2), size=(*size, WALL_HEIGHT / 2), rgba=COLOURS[number],
            )  # fmt: skip
