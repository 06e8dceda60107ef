"""Other goals for steps of a goal-conditioned Gymnasium environment."""

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from robo_rl.core import Batch

from .gymnasium_observations import ObservationReader
from .gymnasium_options import GymnasiumConfig

Array = NDArray[np.float64]

ACHIEVED, DESIRED = "achieved_goal", "desired_goal"
NEAR = 1e-6
"""Difference from the goal that a sparse reward ignores."""
STATES = ("observation/state", "next_observation/state")


class GoalRelabelling:
    """Steps of a goal-conditioned environment with other goals, for :class:`~robo_rl.core.GoalTask`.

    A goal counts as achieved if the reward is what it is exactly at the goal, so the reward has to be sparse.

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
        space: Any = env.observation_space
        self._shape: tuple[int, ...] = space[DESIRED].shape
        self._ends_on_success = ends_on_success

    def __call__(self, rows: Batch) -> Batch:
        """Return ``rows`` with the goal that the last of them achieved, up to the row that ends the episode."""
        before, after = (rows[key].astype(np.float64) for key in STATES)
        achieved, goal = after[:, self._achieved], after[-1, self._achieved]
        rewards, success = self._outcomes(achieved, goal)
        # An end that had nothing to do with the goal, such as a fall, remains one.
        failed = rows["terminated"] & (rows["success"] != 1) & ~self._ends(achieved, before[-1, self._desired])
        terminated = self._ends(achieved, goal) | failed
        result = dict(rows) | {key: self._with_goal(rows[key], goal) for key in STATES}
        result |= {"term/reward": rewards.astype(np.float32), "terminated": terminated}
        if "term/success" in rows:
            result["term/success"] = success.astype(np.float32)
        end = int(terminated.argmax()) + 1 if terminated.any() else len(terminated)
        return {name: array[:end] for name, array in result.items()}

    def _with_goal(self, states: NDArray[np.float32], goal: Array) -> NDArray[np.float32]:
        changed = states.copy()
        changed[:, self._desired] = goal
        changed[:, self._difference] = goal - states[:, self._achieved]
        return changed

    @property
    def is_sparse(self) -> bool:
        """Whether the reward can be computed, and is the same at the goal and very near it."""
        goal = np.zeros(len(self._desired))
        try:
            rewards, _ = self._outcomes(np.stack([goal, goal + NEAR]), goal)
        except Exception:  # third-party code may fail in any way, for example without the info of a step
            return False
        return bool(rewards[0] == rewards[1])

    def _outcomes(self, achieved: Array, goal: Array) -> tuple[Array, NDArray[np.bool_]]:
        """Return rewards (steps,) and whether ``goal`` (n,) is achieved (steps,), for ``achieved`` (steps, n)."""
        desired = goal.reshape(self._shape)
        rewards = [
            float(self._env.compute_reward(each.reshape(self._shape), desired, {})) for each in (*achieved, goal)
        ]
        return np.array(rewards[:-1]), np.array(rewards[:-1]) == rewards[-1]

    def _ends(self, achieved: Array, goal: Array) -> NDArray[np.bool_]:
        """Return whether the task ends for ``goal`` (n,) in states with ``achieved`` (steps, n)."""
        ends = self._outcomes(achieved, goal)[1] & self._ends_on_success
        if hasattr(self._env, "compute_terminated"):
            desired = goal.reshape(self._shape)
            ends |= [bool(self._env.compute_terminated(each.reshape(self._shape), desired, {})) for each in achieved]
        return ends


def goal_relabelling(
    env: gymnasium.Env[Any, Any], reader: ObservationReader, config: GymnasiumConfig
) -> GoalRelabelling | None:
    """Return the relabelling of steps of ``env``; None if it has no sparse reward for any goal."""
    if not reader.has_goal or not hasattr(env.unwrapped, "compute_reward"):
        return None
    relabelling = GoalRelabelling(env, reader.specs["state"].names, config.terminate_on_success)
    return relabelling if relabelling.is_sparse else None
