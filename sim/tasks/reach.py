"""Bring the end effector to a point."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import mujoco
import numpy as np

from robo_rl.core import option, require

from ..arm import looking_at
from ..config import ControllerConfig, TaskConfig
from ..goals import GoalDirected
from ..simulation import ArmSimulation
from .base import Array, FunctionExpert, Task, distance_captions

CONTROLLER = ControllerConfig(action_axes="xyz")
CAMERAS = (("ahead", (1.15, 0.0, 0.1)), ("side", (0.0, -1.15, 0.1)))
"""Name, and position relative to the middle of the goals [m]. Each camera sees two of three axes.

No camera looks down, because from above the hand hides the goal as soon as it is near."""
FINE = 0.05
"""Distance that is 1 in the fine part of the observation [m]."""


@dataclass(frozen=True)
class ReachConfig(TaskConfig):
    """Configuration of ``reach``.

    Attributes:
        goal_low: lower corner of the box of goals [m].
        goal_high: upper corner [m].
        tolerance: distance at which the goal counts as reached [m].
    """

    name: str = "reach"
    max_episode_steps: int = 25
    controller: ControllerConfig = CONTROLLER
    goal_low: tuple[float, ...] = (0.35, -0.25, 0.05)
    goal_high: tuple[float, ...] = (0.65, 0.25, 0.40)
    tolerance: float = option(0.02, above=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        for key in ("goal_low", "goal_high"):
            require(len(getattr(self, key)) == 3, key, "3 values", getattr(self, key))
        ordered = all(low <= high for low, high in zip(self.goal_low, self.goal_high, strict=True))
        require(ordered, "goal_low", f"no more than goal_high {self.goal_high}", self.goal_low)


class Reach(Task, GoalDirected):
    """The end effector reaches a random goal, shown as a sphere. Shaped term ``near``: 1 at the goal, 0 far away."""

    config_class = ReachConfig
    cameras = ("front", "wrist", "ahead", "side")
    shaped_terms = ("near",)
    goal_vector = "to_goal"

    config: ReachConfig

    def build(self, spec: mujoco.MjSpec) -> None:
        goal = spec.worldbody.add_body(name="goal", mocap=True)
        goal.add_geom(
            type=mujoco.mjtGeom.mjGEOM_SPHERE, size=(self.config.tolerance, 0, 0), rgba=(0.15, 0.70, 0.35, 0.6),
            contype=0, conaffinity=0,
        )  # fmt: skip
        centre = np.add(self.config.goal_low, self.config.goal_high) / 2
        for name, away in CAMERAS:
            position = tuple(centre + away)
            spec.worldbody.add_camera(name=name, pos=position, fovy=34, **looking_at(position, tuple(centre)))

    def bind(self, model: mujoco.MjModel) -> None:
        self._goal = int(model.body("goal").mocapid[0])
        self._end_effector = model.site(self.config.arm.end_effector).id

    def initialise(self, model: mujoco.MjModel, data: mujoco.MjData, rng: np.random.Generator) -> None:
        data.mocap_pos[self._goal] = rng.uniform(self.config.goal_low, self.config.goal_high)

    def object_state(self, data: mujoco.MjData) -> dict[str, Array]:
        # The goal's position in the world is left out, because critics memorised goals from it.
        objects = {"to_goal": self._to_goal(data)}
        return objects | self.derived_from_goal(objects)

    def derived_from_goal(self, objects: Mapping[str, Array]) -> dict[str, Array]:
        return {"to_goal_fine": np.clip(objects["to_goal"] / FINE, -1.0, 1.0)}

    def success(self, data: mujoco.MjData) -> bool:
        return bool(np.linalg.norm(self._to_goal(data)) < self.config.tolerance)

    def reward_terms(self, data: mujoco.MjData) -> dict[str, float]:
        return {"near": self._nearness(self._to_goal(data))}

    def goal_rewards(self, objects: Mapping[str, Array]) -> dict[str, float]:
        away = objects["to_goal"]
        return {"success": float(np.linalg.norm(away) < self.config.tolerance), "near": self._nearness(away)}

    def _nearness(self, away: Array) -> float:
        return 1.0 - math.tanh(5.0 * math.hypot(*away.tolist()))

    def captions(self, data: mujoco.MjData) -> dict[str, bool]:
        distance = float(np.linalg.norm(self._to_goal(data)))
        between = {"the green ball is between the fingers": distance < 0.015}
        return distance_captions("the green ball", distance, (0.15, 0.08, 0.03)) | between

    def expert(self, backend: ArmSimulation, rng: np.random.Generator) -> FunctionExpert:
        return FunctionExpert(lambda: backend.action_towards(backend.data.mocap_pos[self._goal]))

    def _to_goal(self, data: mujoco.MjData) -> Array:
        away: Array = data.mocap_pos[self._goal] - data.site_xpos[self._end_effector]
        return away
