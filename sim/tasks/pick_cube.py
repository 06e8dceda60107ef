"""``pick_cube``: lift a cube from the table."""

import math
from dataclasses import dataclass

import mujoco
import numpy as np
from numpy.typing import NDArray

from robo_rl.core import option, require

from ..config import ControllerConfig, TaskConfig
from ..simulation import ArmSimulation
from .base import Array, FunctionExpert, GraspSensor, Task, add_free_box, cube_axes, distance_captions, set_free_pose

CONTROLLER = ControllerConfig(action_axes="xyz+gripper")
COLOURS = {
    "red": (0.80, 0.18, 0.14, 1.0),
    "green": (0.16, 0.60, 0.22, 1.0),
    "blue": (0.14, 0.28, 0.80, 1.0),
}

HOVER = 0.06
"""Height above the cube at which the open gripper is moved over it [m]."""


@dataclass(frozen=True)
class PickCubeConfig(TaskConfig):
    """Configuration of ``pick_cube``.

    Attributes:
        cube_size: edge of the cube [m].
        cube_mass: mass of the cube [kg].
        cube_colour: colour of the cube: red, green or blue.
        area_centre: centre of the square in which the cube lies (x, y) [m].
        area_size: edge of that square [m].
        cube_yaw: largest turn of the cube about the vertical, either way [rad].
        lift_height: height of the cube above its initial position that is success [m].
    """

    name: str = "pick_cube"
    max_episode_steps: int = 40
    controller: ControllerConfig = CONTROLLER
    cube_size: float = option(0.045, low=0.02, high=0.07)
    cube_mass: float = option(0.1, above=0, high=2)
    cube_colour: str = option("red", choices=COLOURS)
    area_centre: tuple[float, ...] = (0.5, 0.0)
    area_size: float = option(0.2, low=0, high=0.4)
    cube_yaw: float = option(0.2, low=0, high=np.pi / 4)
    lift_height: float = option(0.1, above=0, high=0.3)

    def __post_init__(self) -> None:
        super().__post_init__()
        require(len(self.area_centre) == 2, "area_centre", "2 values", self.area_centre)


class PickCube(Task):
    """Lift a cube from a random place: both fingers hold it, ``lift_height`` above where it lay.

    Shaped terms: ``near`` (1 with the cube between the fingers), ``grasped`` (0 or 1), ``lifted`` (share of the height,
    while grasped).
    """

    config_class = PickCubeConfig
    shaped_terms = ("near", "grasped", "lifted")

    config: PickCubeConfig

    def build(self, spec: mujoco.MjSpec) -> None:
        half = self.config.cube_size / 2
        add_free_box(spec, "cube", (half, half, half), self.config.cube_mass, rgba=COLOURS[self.config.cube_colour])

    def bind(self, model: mujoco.MjModel) -> None:
        self._cube = model.body("cube").id
        self._end_effector = model.site(self.config.arm.end_effector).id
        self._grasp = GraspSensor(model, self.config.arm, "cube")

    def initialise(self, model: mujoco.MjModel, data: mujoco.MjData, rng: np.random.Generator) -> None:
        config = self.config
        place = np.array(config.area_centre) + rng.uniform(-0.5, 0.5, 2) * config.area_size
        yaw = rng.uniform(-config.cube_yaw, config.cube_yaw)
        set_free_pose(model, data, "cube", (*place, config.cube_size / 2), yaw)

    def object_state(self, data: mujoco.MjData) -> dict[str, Array]:
        x_axis, z_axis = cube_axes(data.xmat[self._cube].reshape(3, 3))
        return {
            "cube": data.xpos[self._cube],
            "to_cube": self._to_cube(data),
            "cube_x_axis": x_axis,
            "cube_z_axis": z_axis,
        }

    def success(self, data: mujoco.MjData) -> bool:
        return self._height(data) >= self.config.lift_height and self._grasp.holds(data)

    def reward_terms(self, data: mujoco.MjData) -> dict[str, float]:
        grasped = self._grasp.holds(data)
        return {
            "near": 1.0 - math.tanh(5.0 * math.hypot(*self._to_cube(data).tolist())),
            "grasped": float(grasped),
            "lifted": grasped * min(max(self._height(data) / self.config.lift_height, 0.0), 1.0),
        }

    def captions(self, data: mujoco.MjData) -> dict[str, bool]:
        cube, height, held = f"the {self.config.cube_colour} cube", self._height(data), self._grasp.holds(data)
        return {
            **distance_captions(cube, float(np.linalg.norm(self._to_cube(data))), (0.1, 0.05, 0.025)),
            f"{cube} lies on the table": height < 0.01,
            f"the gripper holds {cube}": held,
            f"{cube} is lifted": held and height >= 0.02,
            f"{cube} is lifted high": held and height >= self.config.lift_height,
        }

    def expert(self, backend: ArmSimulation, rng: np.random.Generator) -> FunctionExpert:
        """Return an expert that moves over the cube, down, closes and lifts, from the current state alone."""

        def act() -> NDArray[np.float32]:
            data = backend.data
            cube, hand = data.xpos[self._cube], backend.arm.position(data)
            distance = float(np.linalg.norm((cube - hand)[:2]))
            if self._grasp.holds(data):
                return backend.action_towards(hand + np.array([0, 0, 0.1]), gripper=1.0)
            if distance < 0.01 and hand[2] - cube[2] < 0.012:
                return backend.action_towards(cube, gripper=1.0)
            if distance < 0.015:
                return backend.action_towards(cube, gripper=-1.0)
            return backend.action_towards(cube + np.array([0, 0, HOVER]), gripper=-1.0)

        return FunctionExpert(act)

    def _height(self, data: mujoco.MjData) -> float:
        return float(data.xpos[self._cube][2]) - self.config.cube_size / 2

    def _to_cube(self, data: mujoco.MjData) -> Array:
        away: Array = data.xpos[self._cube] - data.site_xpos[self._end_effector]
        return away
