"""``push_cube``: push a cube to a place on the table."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import mujoco
import numpy as np
from numpy.typing import NDArray

from robo_rl.core import option, require

from ..config import ArmConfig, ControllerConfig, TaskConfig
from ..goals import GoalDirected
from ..simulation import ArmSimulation
from .base import Array, FunctionExpert, Task, add_free_box, cube_axes, distance_captions, set_free_pose
from .pick_cube import COLOURS

BEHIND = 0.02
"""Distance between the cube's middle and the end effector when the fingers touch it, less half the cube's edge [m]."""
APPROACH = 0.01
"""Additional distance behind the cube from which the expert begins to push [m]."""
ASIDE = 0.02
"""Largest distance of the end effector from the line through cube and goal at which the expert pushes [m]."""
GOAL_THICKNESS = 0.001
"""Half thickness of the disc that shows the goal [m]."""


CONTROLLER = ControllerConfig(action_axes="x+y")
ARM = ArmConfig(home=(0.0, 0.30406, 0.0, -2.74221, 0.0, 3.04627, math.pi / 4), home_opening=0.0)
"""The hand points down between the base and the cube, with its closed fingers 2.5 cm above the table."""


@dataclass(frozen=True)
class PushCubeConfig(TaskConfig):
    """Configuration of ``push_cube``.

    Attributes:
        cube_size: edge of the cube [m].
        cube_mass: mass of the cube [kg].
        cube_colour: colour of the cube: red, green or blue.
        area_centre: centre of the rectangle in which the cube lies at first (x, y) [m].
        area_size: edges of that rectangle (x, y) [m].
        cube_yaw: largest turn of the cube about the vertical, either way [rad].
        push_distance: smallest and largest initial distance of the cube from the goal [m].
        push_angle: largest angle between the direction to the goal and the x axis, either way [rad].
        tolerance: distance at which the cube is at the goal [m].
    """

    name: str = "push_cube"
    max_episode_steps: int = 30
    controller: ControllerConfig = CONTROLLER
    arm: ArmConfig = ARM
    cube_size: float = option(0.05, low=0.02, high=0.1)
    cube_mass: float = option(0.1, above=0, high=2)
    cube_colour: str = option("red", choices=COLOURS)
    area_centre: tuple[float, ...] = (0.48, 0.0)
    area_size: tuple[float, ...] = (0.04, 0.16)
    cube_yaw: float = option(0.2, low=0, high=np.pi / 4)
    push_distance: tuple[float, ...] = (0.10, 0.18)
    push_angle: float = option(0.5, low=0, high=np.pi)
    tolerance: float = 0.04

    def __post_init__(self) -> None:
        super().__post_init__()
        require(len(self.area_centre) == 2, "area_centre", "2 values", self.area_centre)
        valid = len(self.area_size) == 2 and min(self.area_size) >= 0
        require(valid, "area_size", "2 values, 0 or more", self.area_size)
        valid = len(self.push_distance) == 2 and 0 < self.push_distance[0] <= self.push_distance[1]
        require(valid, "push_distance", "2 positive values, the least first", self.push_distance)
        require(0 < self.tolerance < self.push_distance[0], "tolerance", "in (0, push_distance)", self.tolerance)


class PushCube(Task, GoalDirected):
    """Push a cube from a random place over the table to a random goal, shown as a disc, with closed fingers.

    The fingers move along the table (x, y). Shaped terms: ``behind`` (1 with the fingers at the side of the cube that
    faces away from the goal, or the cube within ``tolerance`` of it), ``at_goal`` (1 with the cube at the goal, 0 far
    away).

    Object state: the vector from the end effector to the cube and the vector from the cube to the goal [m], and the
    direction of the cube's edge that points most nearly along x.
    """

    config_class = PushCubeConfig
    shaped_terms = ("behind", "at_goal")
    goal_vector = "cube_to_goal"

    config: PushCubeConfig

    def build(self, spec: mujoco.MjSpec) -> None:
        half = self.config.cube_size / 2
        add_free_box(spec, "cube", (half, half, half), self.config.cube_mass, rgba=COLOURS[self.config.cube_colour])
        goal = spec.worldbody.add_body(name="goal", mocap=True)
        goal.add_geom(
            type=mujoco.mjtGeom.mjGEOM_CYLINDER, size=(self.config.tolerance, GOAL_THICKNESS, 0),
            rgba=(0.95, 0.80, 0.20, 1.0), contype=0, conaffinity=0,
        )  # fmt: skip

    def bind(self, model: mujoco.MjModel) -> None:
        self._cube = model.body("cube").id
        self._goal = int(model.body("goal").mocapid[0])
        self._end_effector = model.site(self.config.arm.end_effector).id

    def initialise(self, model: mujoco.MjModel, data: mujoco.MjData, rng: np.random.Generator) -> None:
        config = self.config
        place = np.array(config.area_centre) + rng.uniform(-0.5, 0.5, 2) * np.array(config.area_size)
        yaw = rng.uniform(-config.cube_yaw, config.cube_yaw)
        least, most = config.push_distance
        distance, angle = rng.uniform(least, most), rng.uniform(-config.push_angle, config.push_angle)
        set_free_pose(model, data, "cube", (*place, config.cube_size / 2), yaw)
        goal = place + distance * np.array([math.cos(angle), math.sin(angle)])
        data.mocap_pos[self._goal] = (*goal, GOAL_THICKNESS)

    def object_state(self, data: mujoco.MjData) -> dict[str, Array]:
        return {
            "to_cube": self._to_cube(data),
            "cube_to_goal": self._to_goal(data),
            "cube_x_axis": cube_axes(data.xmat[self._cube].reshape(3, 3))[0],
        }

    def success(self, data: mujoco.MjData) -> bool:
        return bool(np.linalg.norm(self._to_goal(data)) < self.config.tolerance)

    def reward_terms(self, data: mujoco.MjData) -> dict[str, float]:
        terms = self.goal_rewards({"to_cube": self._to_cube(data), "cube_to_goal": self._to_goal(data)})
        return {name: terms[name] for name in self.shaped_terms}

    def goal_rewards(self, objects: Mapping[str, Array]) -> dict[str, float]:
        remaining = objects["cube_to_goal"]
        solved = bool(np.linalg.norm(remaining) < self.config.tolerance)
        away = objects["to_cube"] - self._pushing_distance * _direction(remaining)
        return {
            "success": float(solved),
            # At the goal there is no pushing direction, and so no side behind the cube.
            "behind": 1.0 if solved else 1.0 - math.tanh(5.0 * math.hypot(*away.tolist())),
            "at_goal": 1.0 - math.tanh(5.0 * math.hypot(*remaining.tolist())),
        }

    def captions(self, data: mujoco.MjData) -> dict[str, bool]:
        cube, distance = f"the {self.config.cube_colour} cube", float(np.linalg.norm(self._to_goal(data)))
        return {
            **distance_captions(cube, float(np.linalg.norm(self._to_cube(data))), (0.1, 0.07, 0.05)),
            f"{cube} is far from the yellow disc": distance >= 0.1,
            f"{cube} is near the yellow disc": distance < 0.06,
            f"{cube} is on the yellow disc": distance < self.config.tolerance,
        }

    def expert(self, backend: ArmSimulation, rng: np.random.Generator) -> FunctionExpert:
        """Return an expert that moves behind the cube, then towards the goal, from the current state alone."""

        def act() -> NDArray[np.float32]:
            data = backend.data
            hand, way = backend.arm.position(data)[:2], self._way(data)
            behind = self._behind(data)[:2]
            offset = hand - behind
            along, aside = float(offset @ way), float(way[0] * offset[1] - way[1] * offset[0])
            if self.success(data):
                target = hand  # stop, or the cube would move on
            elif abs(aside) < ASIDE and along > -2 * APPROACH:
                target = hand + self._to_goal(data) - aside * np.array([-way[1], way[0]])
            elif along > -APPROACH / 2:  # beside the cube, or too near to move sideways
                target = hand - 0.03 * way
            else:
                target = behind - APPROACH * way
            return backend.action_towards((*target, 0.0), gripper=1.0)  # actions do not move along z

        return FunctionExpert(act)

    def _way(self, data: mujoco.MjData) -> Array:
        """Return the direction (2,) from the cube to the goal."""
        return _direction(self._to_goal(data))

    @property
    def _pushing_distance(self) -> float:
        """Distance between the cube's middle and the end effector when the fingers touch it [m]."""
        return self.config.cube_size / 2 + BEHIND

    def _behind(self, data: mujoco.MjData) -> Array:
        """Return the position (3,) of the end effector at which the fingers touch the cube opposite to the goal [m]."""
        place: Array = data.xpos[self._cube].copy()
        place[:2] -= self._pushing_distance * self._way(data)
        return place

    def _to_cube(self, data: mujoco.MjData) -> Array:
        """Return the vector (2,) along the table from the end effector to the cube [m]."""
        away: Array = (data.xpos[self._cube] - data.site_xpos[self._end_effector])[:2]
        return away

    def _to_goal(self, data: mujoco.MjData) -> Array:
        """Return the vector (2,) along the table from the cube to the goal [m]."""
        away: Array = (data.mocap_pos[self._goal] - data.xpos[self._cube])[:2]
        return away


def _direction(vector: Array) -> Array:
    """Return the direction of ``vector`` (2,), or zeros if it is zero."""
    direction: Array = vector / max(float(np.linalg.norm(vector)), 1e-9)
    return direction
