"""A point in a square that is to reach a goal, as a goal-conditioned Gymnasium environment."""

from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

RADIUS = 0.15
STEP = 0.1


class GoalWorld(gymnasium.Env[dict[str, NDArray[np.float64]], NDArray[np.float32]]):
    """Reward: 0 within :data:`RADIUS` of the goal, else -1."""

    dt = 0.1

    def __init__(self, dense: bool = False, fall: int = -1) -> None:
        """Make the world: ``dense``: the reward is the negative distance; ``fall``: the step that ends an episode."""
        self.dense, self.fall, self.steps = dense, fall, 0
        box: gymnasium.Space[Any] = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float64)
        self.observation_space = gymnasium.spaces.Dict({"observation": box, "achieved_goal": box, "desired_goal": box})
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.place, self.goal = np.zeros(2), np.zeros(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        super().reset(seed=seed)
        self.place, self.goal = self.np_random.uniform(-1, 1, (2, 2))
        self.steps = 0
        return self._observe(), {}

    def step(self, action: NDArray[np.float32]) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        self.place = np.clip(self.place + STEP * action, -1, 1)
        self.steps += 1
        reward = self.compute_reward(self.place, self.goal, {})
        return self._observe(), reward, self.steps == self.fall, False, {"is_success": reward > -RADIUS}

    def compute_reward(self, achieved: NDArray[np.float64], desired: NDArray[np.float64], info: Any) -> float:
        distance = float(np.linalg.norm(achieved - desired))
        return -distance if self.dense else -float(distance > RADIUS)

    def _observe(self) -> dict[str, Any]:
        return {"observation": self.place.copy(), "achieved_goal": self.place.copy(), "desired_goal": self.goal.copy()}


gymnasium.register("GoalWorld-v0", entry_point=GoalWorld, max_episode_steps=30)
