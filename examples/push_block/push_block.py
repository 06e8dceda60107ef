"""Task ``push_block``: push a block along the table to a mark."""

from dataclasses import dataclass

import mujoco
import numpy as np

from robo_rl.sim import ArmConfig, ArmSimulation, ControllerConfig, FunctionExpert, Task, TaskConfig, register_task
from robo_rl.sim.tasks.base import Array, add_free_box, set_free_pose

HALF = 0.025  # half of the block's edge [m]
MARK = np.array([0.62, 0.0])  # on the table [m]
ARM = ArmConfig(home=(0.0, 0.304, 0.0, -2.742, 0.0, 3.046, 0.785), home_opening=0.0)  # fingers closed, near the table
CONTROLLER = ControllerConfig(action_axes="x+y")


@dataclass(frozen=True)
class PushBlockConfig(TaskConfig):
    max_episode_steps: int = 30
    arm: ArmConfig = ARM
    controller: ControllerConfig = CONTROLLER
    tolerance: float = 0.04  # distance at which the block is at the mark [m]


class PushBlock(Task):
    config_class = PushBlockConfig
    config: PushBlockConfig

    def build(self, spec: mujoco.MjSpec) -> None:
        add_free_box(spec, "block", (HALF, HALF, HALF), mass=0.1, rgba=(0.8, 0.2, 0.2, 1))
        spec.worldbody.add_site(name="mark", pos=(*MARK, 0), size=(self.config.tolerance, 0, 0), rgba=(1, 0.8, 0, 1))

    def bind(self, model: mujoco.MjModel) -> None:
        self._block, self._hand = model.body("block").id, model.site(self.config.arm.end_effector).id

    def initialise(self, model: mujoco.MjModel, data: mujoco.MjData, rng: np.random.Generator) -> None:
        set_free_pose(model, data, "block", (*rng.uniform((0.46, -0.06), (0.50, 0.06)), HALF))

    def object_state(self, data: mujoco.MjData) -> dict[str, Array]:
        block, hand = data.xpos[self._block, :2], data.site_xpos[self._hand, :2]
        return {"to_block": block - hand, "block_to_mark": MARK - block}

    def success(self, data: mujoco.MjData) -> bool:
        return bool(np.linalg.norm(self.object_state(data)["block_to_mark"]) < self.config.tolerance)

    def expert(self, backend: ArmSimulation, rng: np.random.Generator) -> FunctionExpert:
        def act() -> np.ndarray:
            to_block, to_mark = self.object_state(backend.data).values()
            way = to_mark / np.linalg.norm(to_mark)
            behind = abs(to_block[0] * way[1] - to_block[1] * way[0]) < 0.015
            target = to_block + to_mark if behind else to_block - 0.07 * way
            return backend.action_towards(backend.arm.position(backend.data) + np.append(target, 0.0))

        return FunctionExpert(act)


def register() -> None:
    register_task("push_block", PushBlock)
