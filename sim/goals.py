"""Other goals for steps of a simulated task: hindsight experience replay."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import Batch

Array = NDArray[np.float64]


class GoalDirected(ABC):
    """A task whose object state has a vector from what the task moves to its goal: the part that hindsight needs.

    Attributes:
        config: configuration of the task.
        shaped_terms: names of the reward terms besides ``success``.
        goal_vector: name of the vector.
    """

    config: Any
    shaped_terms: ClassVar[tuple[str, ...]]
    goal_vector: ClassVar[str]

    def derived_from_goal(self, objects: Mapping[str, Array]) -> dict[str, Array]:
        """Return the vectors of ``objects``, an object state, that are computed from ``goal_vector``."""
        return {}

    @abstractmethod
    def goal_rewards(self, objects: Mapping[str, Array]) -> dict[str, float]:
        """Return all reward terms of a state with the object state ``objects``."""


class GoalShift:
    """Steps of a task with the goal that they achieved, for :class:`~robo_rl.core.GoalTask`.

    Another goal changes ``task.goal_vector`` by the same amount in all steps of an episode.

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


def make_goal_shift(task: object, objects: Mapping[str, Array]) -> GoalShift | None:
    """Return the relabelling of steps of ``task``, with the object state ``objects``; None if it has no goal vector."""
    return GoalShift(task, objects) if isinstance(task, GoalDirected) else None
