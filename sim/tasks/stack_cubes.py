"""``stack_cubes``: stack cubes on one another in a given order."""

import math
from dataclasses import dataclass

import mujoco
import numpy as np
from numpy.typing import NDArray

from robo_rl.core import option, require

from ..config import ControllerConfig, TaskConfig
from ..simulation import ArmSimulation
from .base import Array, FunctionExpert, GraspSensor, Task, add_free_box, cube_turn, raised, set_free_pose

CONTROLLER = ControllerConfig(action_axes="xyz+gripper")
COLOURS = ((0.80, 0.18, 0.14, 1.0), (0.16, 0.60, 0.22, 1.0), (0.14, 0.28, 0.80, 1.0), (0.93, 0.75, 0.10, 1.0))
"""Colours from the lowest cube to the highest."""
CUBE_MASS = 0.05
"""Mass of a cube [kg]."""
FRICTION = (1.0, 0.01, 0.0005)

APART = 0.055
"""Smallest initial distance between the faces of two cubes: the open hand fits between them [m]."""
REST_SPEED = 0.05
"""Speed below which a cube counts as at rest [m/s]."""

# Parameters of the expert, all in [m].
GRASP_HEIGHT = 0.008
"""Height of the end effector above the middle of a cube."""
CLEARANCE = 0.045
"""Height of what the hand carries, or of its empty fingers, above everything that stands on the table."""
RELEASE_GAP = 0.004
"""Gap between a cube and the one below it when it is released."""
ALIGNED = 0.006
"""Horizontal distance from its place within which a cube is lowered."""


@dataclass(frozen=True)
class StackCubesConfig(TaskConfig):
    """Configuration of ``stack_cubes``.

    Attributes:
        cubes: number of cubes; from the lowest to the highest they are red, green, blue and yellow.
        cube_size: edge of the cubes [m].
        area_centre: centre of the rectangle in which the cubes lie at first (x, y) [m].
        area_size: edges of that rectangle (x, y) [m].
        cube_yaw: largest turn of a cube about the vertical, either way [rad].
        tolerance: largest horizontal distance between the centres of a cube and of the one below it, as a share of the
            edge.
    """

    name: str = "stack_cubes"
    max_episode_steps: int = 150
    controller: ControllerConfig = CONTROLLER
    cubes: int = option(3, low=2, high=len(COLOURS))
    cube_size: float = option(0.045, low=0.035, high=0.06)
    area_centre: tuple[float, ...] = (0.5, 0.0)
    area_size: tuple[float, ...] = (0.16, 0.34)
    cube_yaw: float = option(0.2, low=0, high=np.pi / 4)
    tolerance: float = option(0.35, above=0, below=0.5)

    def __post_init__(self) -> None:
        super().__post_init__()
        require(len(self.area_centre) == 2, "area_centre", "2 values", self.area_centre)
        valid = len(self.area_size) == 2 and min(self.area_size) >= 0 and max(self.area_size) <= 0.5
        require(valid, "area_size", "2 values in [0, 0.5]", self.area_size)
        # So that random draws find places: each cube keeps the others out of a circle around it.
        room = math.prod(edge + self.distance for edge in self.area_size)
        needed = 2 * self.cubes * math.pi * (self.distance / 2) ** 2
        require(room >= needed, "area_size", f"large enough for {self.cubes} cubes {APART} m apart", self.area_size)

    @property
    def distance(self) -> float:
        """Smallest initial distance between the middles of two cubes [m]."""
        return self.cube_size * math.sqrt(2) + APART


class StackCubes(Task):
    """Stack cubes from random places: each cube but the first on the one before it.

    Success: every cube but the lowest rests on the one before it, and no finger touches any cube.

    Object state, for each cube in order: the vector from the end effector to it and, for all but the lowest, the vector
    to its place on the one before it (base frame) [m]; cosine and sine of four times its yaw, as a cube looks the same
    after a quarter turn; how upright its most upright axis is (1: flat on a face).

    Shaped terms: ``near`` (1 with the next cube between the fingers), ``grasped`` (0 or 1: the next cube), ``placed``
    (1 with the next cube in its place), ``stacked`` (share of the cubes that are in their places).
    """

    config_class = StackCubesConfig
    shaped_terms = ("near", "grasped", "placed", "stacked")

    config: StackCubesConfig

    def build(self, spec: mujoco.MjSpec) -> None:
        half = self.config.cube_size / 2
        for number in range(self.config.cubes):
            add_free_box(spec, f"cube_{number}", (half, half, half), CUBE_MASS, COLOURS[number], FRICTION)

    def bind(self, model: mujoco.MjModel) -> None:
        names = [f"cube_{number}" for number in range(self.config.cubes)]
        self._cubes = [model.body(name).id for name in names]
        self._velocities = [slice(start := int(model.joint(name).dofadr[0]), start + 3) for name in names]
        self._end_effector = model.site(self.config.arm.end_effector).id
        self._grasps = [GraspSensor(model, self.config.arm, name) for name in names]

    def initialise(self, model: mujoco.MjModel, data: mujoco.MjData, rng: np.random.Generator) -> None:
        config = self.config
        first, second = np.triu_indices(config.cubes, 1)
        while True:  # all are drawn again if two are too near: the first ones may leave no room for the others
            places = config.area_centre + rng.uniform(-0.5, 0.5, (config.cubes, 2)) * config.area_size
            if (np.linalg.norm(places[first] - places[second], axis=1) >= config.distance).all():
                break
        for number, place in enumerate(places):
            yaw = rng.uniform(-config.cube_yaw, config.cube_yaw)
            set_free_pose(model, data, f"cube_{number}", (*place, config.cube_size / 2), yaw)

    def stacked(self, data: mujoco.MjData) -> int:
        """Return how many cubes, counted from the second, lie on the one before them, at rest or not."""
        count = 0
        for number in range(1, self.config.cubes):
            away = self._to_place(data, number)
            # A cube that stands on an edge, or on a finger, is not at the height of one that lies flat.
            level = abs(float(away[2])) < 0.1 * self.config.cube_size
            if not level or math.hypot(away[0], away[1]) > self.config.tolerance * self.config.cube_size:
                break
            if self._grasps[number].holds(data):
                break
            count += 1
        return count

    def object_state(self, data: mujoco.MjData) -> dict[str, Array]:
        state: dict[str, Array] = {}
        for number, cube in enumerate(self._cubes):
            turn, upright = cube_turn(data.xmat[cube].reshape(3, 3))
            state[f"to_cube_{number}"] = self._to_cube(data, number)
            if number:
                state[f"cube_{number}_to_place"] = self._to_place(data, number)
            state[f"cube_{number}_turn"] = turn
            state[f"cube_{number}_upright"] = upright
        return state

    def success(self, data: mujoco.MjData) -> bool:
        if self.stacked(data) < self.config.cubes - 1:
            return False
        at_rest = all(np.linalg.norm(data.qvel[velocity]) < REST_SPEED for velocity in self._velocities)
        return at_rest and not any(grasp.touches(data) for grasp in self._grasps)

    def reward_terms(self, data: mujoco.MjData) -> dict[str, float]:
        stacked = self.stacked(data)
        number = min(stacked + 1, self.config.cubes - 1)
        away = math.hypot(*self._to_place(data, number).tolist())
        return {
            "near": 1.0 - math.tanh(5.0 * math.hypot(*self._to_cube(data, number).tolist())),
            "grasped": float(self._grasps[number].holds(data)),
            "placed": 1.0 - math.tanh(5.0 * away),
            "stacked": stacked / (self.config.cubes - 1),
        }

    def expert(self, backend: ArmSimulation, rng: np.random.Generator) -> FunctionExpert:
        """Return an expert that picks up, carries and releases the next cube, from the current state alone."""
        size = self.config.cube_size

        def act() -> NDArray[np.float32]:
            data = backend.data
            hand = backend.arm.position(data)
            held = next((index for index in range(1, self.config.cubes) if self._grasps[index].holds(data)), None)
            if held is not None:
                return self._carry(backend, held)
            number = self.stacked(data) + 1
            touching = any(grasp.touches(data) for grasp in self._grasps)
            if number == self.config.cubes:
                return backend.action_towards(raised(hand, CLEARANCE * touching), gripper=-1.0)
            cube = data.xpos[self._cubes[number]]
            to_cube = cube - hand
            distance = math.hypot(to_cube[0], to_cube[1])
            if distance < 0.01 and -to_cube[2] < GRASP_HEIGHT + 0.008:
                return backend.action_towards(raised(cube, GRASP_HEIGHT), gripper=1.0)
            if distance < 0.015:
                return backend.action_towards(raised(cube, GRASP_HEIGHT), gripper=-1.0)
            safe = self._top(data, number) + size / 2 + CLEARANCE
            if distance > size and hand[2] < safe - 0.015:  # too low to pass the other cubes
                return backend.action_towards(np.array([*hand[:2], safe]), gripper=-1.0)
            height = safe if distance > size else cube[2] + size / 2 + CLEARANCE
            return backend.action_towards(np.array([*cube[:2], height]), gripper=-1.0)

        return FunctionExpert(act)

    def _carry(self, backend: ArmSimulation, number: int) -> NDArray[np.float32]:
        """Return the action that brings the held cube to its place."""
        data, hand = backend.data, backend.arm.position(backend.data)
        away, cube, size = self._to_place(data, number), data.xpos[self._cubes[number]], self.config.cube_size
        distance = math.hypot(away[0], away[1])
        lowest = cube[2] - size / 2
        safe = self._top(data, number) + 0.5 * CLEARANCE
        if distance < ALIGNED and -away[2] < RELEASE_GAP:
            return backend.action_towards(hand, gripper=-1.0)
        if distance < ALIGNED:
            return backend.action_towards(hand + away, gripper=1.0)
        if distance > 0.5 * size and lowest < safe - 0.01:
            return backend.action_towards(raised(hand, safe - lowest), gripper=1.0)
        return backend.action_towards(hand + np.array([away[0], away[1], safe - lowest]), gripper=1.0)

    def _top(self, data: mujoco.MjData, number: int) -> float:
        """Return the height of the highest face of all cubes except one [m]."""
        heights = [float(data.xpos[cube][2]) for index, cube in enumerate(self._cubes) if index != number]
        return max(heights) + self.config.cube_size / 2

    def _to_cube(self, data: mujoco.MjData, number: int) -> Array:
        away: Array = data.xpos[self._cubes[number]] - data.site_xpos[self._end_effector]
        return away

    def _to_place(self, data: mujoco.MjData, number: int) -> Array:
        """Return the vector (3,) from a cube to its place on the one before it [m]."""
        place = raised(data.xpos[self._cubes[number - 1]], self.config.cube_size)
        away: Array = place - data.xpos[self._cubes[number]]
        return away
