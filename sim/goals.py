"""Other goals for steps of a simulated task: hindsight experience replay."""

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import Batch

Array = NDArray[np.float64]


class GoalDirected(Protocol):
    """The part of a :class:`~robo_rl.sim.episode.SimulatedTask` that concerns its goal."""

    config: Any
    shaped_terms: ClassVar[tuple[str, ...]]
    goal_vector: ClassVar[str]

    def derived_from_goal(self, objects: Mapping[str, Array]) -> dict[str, Array]: ...

    def goal_rewards(self, objects: Mapping[str, Array]) -> dict[str, float]: ...


class GoalShift:
    """Steps of a task with the goal that they achieved, for :class:`~robo_rl.core.GoalTask`.

    The task observes its goal as a vector from what it moves to where that should be, ``task.goal_vector``. Another
    goal changes this vector by the same amount in all steps of an episode.

    Args:
        task: task with a goal.
        objects: object state of the task, which shows the sizes of its vectors.
    """

    def __init__(self, task: GoalDirected, objects: Mapping[str, Array]) -> None:
        self._task = task
        ends = np.cumsum([value.size for value in objects.values()])
        self._slices = {name: slice(end - objects[name].size, end) for name, end in zip(objects, ends, strict=True)}

    def __call__(self, rows: Batch) -> Batch:
        """Return ``rows`` with the goal that the last of them achieved, up to the row that ends the episode."""
        shift = rows["next_observation/object"][-1, self._slices[self._task.goal_vector]].astype(np.float64)
        result = dict(rows)
        for key in ("observation/object", "next_observation/object"):
            result[key], objects = self._shifted(rows[key], shift)
        terms: dict[str, Array] = {
            name: np.array([each[name] for each in map(self._task.goal_rewards, objects)], np.float32)
            for name in ("success", *self._task.shaped_terms)
        }
        solved = terms["success"] > 0
        # An end that had nothing to do with the goal remains one.
        failed = rows["terminated"] & (rows["success"] != 1)
        terminated = (solved & self._task.config.terminate_on_success) | failed
        result |= {f"term/{name}": values for name, values in terms.items()} | {"terminated": terminated}
        end = int(terminated.argmax()) + 1 if terminated.any() else len(terminated)
        return {name: array[:end] for name, array in result.items()}

    def _shifted(self, rows: NDArray[np.float32], shift: Array) -> tuple[NDArray[np.float32], list[dict[str, Array]]]:
        """Return rows (steps, n) of the observation with another goal, and the same by name for each step."""
        objects = []
        for row in rows.astype(np.float64):
            parts = {name: row[place] for name, place in self._slices.items()}
            parts[self._task.goal_vector] = parts[self._task.goal_vector] - shift
            objects.append(parts | self._task.derived_from_goal(parts))
        return np.array([np.concatenate(list(parts.values())) for parts in objects], np.float32), objects
