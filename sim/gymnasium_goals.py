"""Other goals for steps of a goal-conditioned Gymnasium environment."""

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from robo_rl.core import Batch

from .gymnasium_observations import ObservationReader
from .gymnasium_options import GymnasiumConfig

ACHIEVED, DESIRED = "achieved_goal", "desired_goal"
STATES = ("observation/state", "next_observation/state")


class GoalRelabelling:
    """Steps of a goal-conditioned environment with other goals, for :class:`~robo_rl.core.GoalTask`.

    A goal counts as achieved if the reward is what it is exactly at the goal.

    Args:
        env: environment with ``compute_reward(achieved_goal, desired_goal, info)``, as in Gymnasium-Robotics, and
            perhaps ``compute_terminated`` with the same arguments.
        names: names of the elements of the observation ``state``.
        ends_on_success: whether an episode ends when its goal is achieved.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], names: Sequence[str], ends_on_success: bool) -> None:
        self._env: Any = env.unwrapped
        self._achieved, self._desired, self._difference = (
            [index for index, name in enumerate(names) if name.partition("[")[0] == key]
            for key in (ACHIEVED, DESIRED, f"{DESIRED}-{ACHIEVED}")
        )
        self._shape = env.observation_space[DESIRED].shape  # type: ignore[index]
        self._ends_on_success = ends_on_success

    def __call__(self, rows: Batch) -> Batch:
        """Return ``rows`` with the goal that the last of them achieved, up to the row that ends the episode."""
        goal = rows[STATES[1]][-1, self._achieved].astype(np.float64)
        result = dict(rows)
        for key in STATES:
            result[key] = self._with_goal(rows[key], goal)
        achieved = rows[STATES[1]][:, self._achieved].astype(np.float64)
        rewards = np.array([self._reward(each, goal) for each in achieved])
        success = rewards == self._reward(goal, goal)
        terminated = np.array([self._terminates(each, goal) for each in achieved]) | (success & self._ends_on_success)
        result["term/reward"] = rewards.astype(np.float32)
        if "term/success" in rows:
            result["term/success"] = success.astype(np.float32)
        result["success"] = success.astype(rows["success"].dtype)
        result["terminated"] = terminated
        result["truncated"] = rows["truncated"] & ~terminated
        end = int(terminated.argmax()) + 1 if terminated.any() else len(terminated)
        return {name: array[:end] for name, array in result.items()}

    def _with_goal(self, states: NDArray[np.float32], goal: NDArray[np.float64]) -> NDArray[np.float32]:
        changed = states.copy()
        changed[:, self._desired] = goal
        changed[:, self._difference] = goal - states[:, self._achieved]
        return changed

    def _reward(self, achieved: NDArray[np.float64], goal: NDArray[np.float64]) -> float:
        return float(self._env.compute_reward(achieved.reshape(self._shape), goal.reshape(self._shape), {}))

    def _terminates(self, achieved: NDArray[np.float64], goal: NDArray[np.float64]) -> bool:
        if not hasattr(self._env, "compute_terminated"):
            return False
        return bool(self._env.compute_terminated(achieved.reshape(self._shape), goal.reshape(self._shape), {}))


def goal_relabelling(
    env: gymnasium.Env[Any, Any], reader: ObservationReader, config: GymnasiumConfig
) -> GoalRelabelling | None:
    """Return the relabelling of steps of ``env``; None if it cannot compute rewards for other goals."""
    if not reader.has_goal or not hasattr(env.unwrapped, "compute_reward"):
        return None
    return GoalRelabelling(env, reader.specs["state"].names, config.terminate_on_success)
