"""Return, interventions and stages of an episode while it is running."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import MACHINE, TEACHERS, Metrics, Observation, Reward, Source, finite_number, whole_number


class Earnings:
    """Reward of an episode so far, in total and by term, its interventions, and the states that its machine reached.

    Args:
        reward: combines the terms into one number.
        terms: names of the terms, in the order of the values.
        states: names of the states of the task's machine; empty without one.

    Attributes:
        total: sum over the steps whose reward is known.
        discounted: the same sum with each reward discounted by its age, G <- gamma G + r.
        intervened_steps: number of steps in which a person or an expert acted instead of the policy.
        interventions: number of sequences of such steps.
        reached: whether the machine was in each of its states after a step, by name.
    """

    def __init__(self, reward: Reward, terms: Sequence[str], states: Sequence[str] = ()) -> None:
        self._reward = reward
        self._names = tuple(terms)
        self.total = self.discounted = 0.0
        self.terms = dict.fromkeys(self._names, 0.0)
        self.intervened_steps = self.interventions = 0
        self._is_intervened = False
        self.reached = dict.fromkeys(states, False)

    def add(self, values: NDArray[np.float32], gamma: float) -> list[float]:
        """Add the terms, of shape (n, terms), of n steps; return the discounted sum after each of them."""
        rewards, sums = self._reward.combine(self._names, values, gamma), []
        self.total += float(rewards.sum())
        for reward in rewards.tolist():
            self.discounted = gamma * self.discounted + reward
            sums.append(self.discounted)
        for name, total in zip(self._names, values.sum(0).tolist(), strict=True):
            self.terms[name] += total
        return sums

    def reach(self, observation: Observation) -> None:
        """Note the state of the machine in the observation after a step."""
        if self.reached:
            self.reached[list(self.reached)[int(observation[MACHINE].argmax())]] = True

    def count(self, source: Source) -> None:
        """Count a step whose action came from ``source``."""
        begins = source in TEACHERS and not self._is_intervened
        self._is_intervened = source in TEACHERS
        self.intervened_steps += self._is_intervened
        self.interventions += begins

    def metrics(self) -> Metrics:
        """Return the metrics to log when the episode ends."""
        terms = {f"reward/{name}": total for name, total in self.terms.items()}
        counts = {"intervened_steps": self.intervened_steps, "interventions": self.interventions}
        reached = {f"reached/{name}": float(value) for name, value in self.reached.items()}
        return {"episode_return": self.total, **terms, **counts, **reached}

    def state(self) -> dict[str, Any]:
        """Return the state of an open episode for a checkpoint."""
        return {
            "episode_return": self.total,
            "episode_discounted": self.discounted,
            "episode_terms": self.terms,
            "episode_interventions": [self.intervened_steps, self.interventions, self._is_intervened],
            "episode_reached": [name for name, value in self.reached.items() if value],
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """Restore the state that :meth:`state` returned."""
        self.total = finite_number(state["episode_return"])
        self.terms = {name: finite_number(state["episode_terms"][name]) for name in self._names}
        self.discounted = finite_number(state.get("episode_discounted", 0.0))  # absent in older checkpoints
        *counts, is_intervened = state.get("episode_interventions", [0, 0, False])  # absent in older checkpoints
        self.intervened_steps, self.interventions = map(whole_number, counts)
        self._is_intervened = bool(is_intervened)
        reached = state.get("episode_reached", [])  # absent in older checkpoints
        self.reached = {name: name in reached for name in self.reached}
