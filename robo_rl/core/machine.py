"""Reward machines: finite automata that follow a task of several stages (Icarte et al. 2022)."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .temporal import Formula, Signals

States = NDArray[np.intp]
"""Numbers of states of a machine."""


class Edge(NamedTuple):
    """An edge of a machine.

    Attributes:
        when: momentary formula; the edge may be taken where its robustness is above 0.
        target: number of the state that it leads to.
        reward: reward for taking it.
    """

    when: Formula
    target: int
    reward: float


@dataclass(frozen=True)
class RewardMachine:
    """A machine, in one of its states, that takes at most one edge in each step.

    Attributes:
        states: names of the states; an episode begins in the first.
        edges: edges of each state, in order; the first whose formula holds is taken.
        success: numbers of the states in which the task is solved. They have no edges.
        failure: numbers of the states in which the task can no longer be solved. They have no edges.
        signals: names of all signals of the formulas.
        fingerprint: identifies states, edges and rewards.
    """

    states: tuple[str, ...]
    edges: tuple[tuple[Edge, ...], ...]
    success: frozenset[int]
    failure: frozenset[int]
    signals: frozenset[str]
    fingerprint: str

    def advance(self, states: States, signals: Signals) -> tuple[States, NDArray[np.float32]]:
        """Take one step from each of n states.

        Args:
            states: numbers of states (n,).
            signals: values (n,) of the signals after the step, by name.

        Returns:
            The states after the step, and the rewards of the edges that were taken; both (n,). Without an edge, the
            state remains and the reward is 0.
        """
        targets, rewards = states.copy(), np.zeros(len(states), np.float32)
        for state, edges in enumerate(self.edges):
            waiting = states == state
            for edge in edges:
                if not waiting.any():
                    break
                taken = waiting & (edge.when.trace(signals, 1.0) > 0)
                targets[taken], rewards[taken] = edge.target, edge.reward
                waiting &= ~taken
        return targets, rewards

    @cached_property
    def progress(self) -> NDArray[np.float32]:
        """The progress of each state, in [0, 1]: 1 in success, less by the same amount for each missing edge.

        It is 0 in the state with the longest way to success, and in all states without one.
        """
        missing = distances(self)
        longest = max(max(missing.values()), 1)
        return np.array(
            [1 - missing[state] / longest if state in missing else 0.0 for state in range(len(self.states))], np.float32
        )


def distances(machine: RewardMachine) -> Mapping[int, int]:
    """Return the smallest number of edges from each state to success; states without a way to success are left out."""
    missing = dict.fromkeys(sorted(machine.success), 0)
    for distance in range(1, len(machine.states)):
        nearer = set(missing)
        for state, edges in enumerate(machine.edges):
            if state not in nearer and any(edge.target in nearer for edge in edges):
                missing[state] = distance
    return missing
