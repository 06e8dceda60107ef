"""Imitation from observation by optimal transport (Haldar et al. 2022), with a scheduled discount (Liu et al. 2024)."""

import bisect
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from robo_rl.core import Batch, CheckpointError, EnvSpec, Metrics, State

from ..parts.arrays import taken
from ..parts.demonstrations import succeeded
from ..parts.module import Floats
from ..parts.sinkhorn import sinkhorn
from ..parts.vector_module import VectorModule
from .optimal_transport_options import OptimalTransportOptions

ALIKE = 0.1
"""Difference of an element, in standard deviations, above which the metric ``cauchy`` grows logarithmically."""


@dataclass(frozen=True)
class OptimalTransportConfig(OptimalTransportOptions):
    """Module as configured by :class:`.OptimalTransportOptions`."""

    def make(self, name: str, spec: EnvSpec, seed: int) -> "OptimalTransportReward":
        """Return the module of term ``name``."""
        return OptimalTransportReward(self, name, spec)


class OptimalTransportReward(VectorModule):
    """Reward for similarity to demonstrations by optimal transport; see :class:`.OptimalTransportOptions`.

    An episode of L steps is compared with each demonstration. The plan T (L, M) transports the states of the episode to
    those of the demonstration at the least cost C. The reward of step t is -L * sum_j T_tj C_tj / u, minus the mean
    cost of the states that the step is transported to, in units u. The demonstration with the largest sum counts. The
    unit is chosen such that an episode that stays at the beginning of a demonstration earns -1 per step, averaged over
    demonstrations. (In the reference implementation the rewards of the first episode sum to -10. A unit that followed
    the policy, whose cost falls to a sixth of that, would make the stored rewards grow while values are learned from
    them.)

    This reward measures the distance of an episode from the demonstrations, not the progress of a step: a correct step
    costs nothing, whether it is the first or the last. With ``reward=progress`` the reward of a step is
    f L sum_j T_tj p_j - 1 instead, where p is the completed share of a demonstration in a state: nearly -1 where
    demonstrations begin, 0 in their last states. T then transports an episode to the states of all demonstrations, and
    is semi-relaxed: a step may go to any state, and states may receive nothing, because otherwise an episode without
    motion would also be transported to the last states. With the entropy such a plan is a softmax of the costs. Far
    from all demonstrations it would be a mean over them, worth as much as completing half of the task. Therefore
    f = D / d, where d is the least cost of a state and D the largest such cost of a demonstration's state to the other
    demonstrations; f = 1 if d is below D.

    The progress k of the schedule begins at ``first_progress`` of the shortest demonstration and only grows. For the
    first k steps, the score of a trajectory is the longest increasing run of its nearest demonstration states. Progress
    grows while the 90th percentile of the scores of the newest episodes reaches ``threshold`` of the median score of
    the demonstrations.
    """

    whole_episodes = True
    judges_state = False

    config: OptimalTransportConfig

    def __init__(self, config: OptimalTransportConfig, name: str, spec: EnvSpec) -> None:
        super().__init__(config, name, spec)
        self._scale = np.ones(self._input.size, dtype=np.float32)
        self._unit = np.ones(1, dtype=np.float32)
        self._farthest = np.ones(1, dtype=np.float32)
        self._counters = np.zeros(2, dtype=np.int64)  # progress k, and number of episodes
        self._arrays |= {
            "scale": self._scale,
            "unit": self._unit,
            "farthest": self._farthest,
            "counters": self._counters,
        }
        self._demonstrations: list[Tensor] = []
        self._recent: list[Tensor] = []

    @property
    def progress(self) -> int:
        """Number k of steps of the demonstrations that the agent has learned to follow."""
        return int(self._counters[0])

    def fit(self, episodes: Sequence[Batch]) -> Metrics:
        """Store the states of the demonstrations, and compute the unit of rewards."""
        episodes = succeeded(episodes, self._name)
        vectors = [self._input(episode) for episode in episodes]
        if self.config.metric != "cosine":
            deviation = np.concatenate(vectors).std(0)
            self._scale[...] = np.where(deviation > 1e-6, deviation, 1.0)
        self._demonstrations = [self._features(states) for states in vectors]
        # With any plan, an episode that stays in one state costs the mean distance to a demonstration's states.
        starts = torch.stack([states[0] for states in self._demonstrations])
        staying = torch.stack(
            [state_costs(starts, states, self.config.metric).mean(1) for states in self._demonstrations]
        ).amin(0)
        self._unit[0] = float(staying.mean()) if staying.max() > 1e-6 else 1.0
        self._farthest[0] = farthest_neighbour(self._demonstrations, self.config.metric)
        shortest = min(map(len, self._demonstrations))
        self._counters[0] = max(1, round(self.config.first_progress * shortest))
        return {}

    def observe(self, batch: Batch) -> None:
        """Store an episode, and update the progress of the schedule every ``interval`` episodes."""
        if not self.config.scheduled_discount:
            return
        self._recent = [*self._recent, self._features(self._input(batch))][-self.config.interval :]
        self._counters[1] += 1
        if self._counters[1] % self.config.interval == 0:
            for _ in range(self.config.largest_advance):
                if not self._follows(self.progress):
                    break
                self._counters[0] += 1

    def discount(self) -> float | None:
        """Return ``discount_base ** (1 / k)`` if the discount is scheduled, else None."""
        return self.config.discount_base ** (1 / self.progress) if self.config.scheduled_discount else None

    def __call__(self, batch: Batch) -> Floats:
        """Return the rewards (n,) of the n steps of one episode, in order: at most 0, of ``progress`` at least -1."""
        episode = self._features(self._input(batch))
        cost_tables = [
            state_costs(episode, demonstration, self.config.metric) for demonstration in self._demonstrations
        ]
        if self.config.reward == "progress":
            rewards = self._progress(cost_tables) - 1
        else:
            compared = torch.stack([-self._transported(costs) for costs in cost_tables])
            rewards = compared[compared.sum(1).argmax()] / float(self._unit[0])
        result: Floats = rewards.numpy()
        return result

    def _transported(self, costs: Tensor) -> Tensor:
        """Return the mean cost (L,) of the states that each step is transported to, given costs (L, M)."""
        return len(costs) * (sinkhorn(costs, self._entropy(costs), self.config.iterations) * costs).sum(1)

    def _progress(self, each_costs: Sequence[Tensor]) -> Tensor:
        """Return the mean completed share (L,) of the demonstrations in the states that each step is transported to."""
        costs = torch.cat(tuple(each_costs), dim=1)
        done = torch.cat([torch.arange(1, each.shape[1] + 1) / each.shape[1] for each in each_costs])
        progress = torch.softmax(-costs / self._entropy(costs), dim=1) @ done
        farthest = float(self._farthest[0])
        return progress * (farthest / costs.amin(1).clamp(min=farthest))

    def _entropy(self, costs: Tensor) -> float:
        """Return the weight of the plan's entropy, in units of the costs."""
        return self.config.epsilon * float(costs.mean()) + 1e-9

    def _features(self, vectors: Floats) -> Tensor:
        """Return states (n, F) in the units that costs are computed in."""
        features = torch.from_numpy(vectors / self._scale)
        return torch.nn.functional.normalize(features, dim=1) if self.config.metric == "cosine" else features

    def _follows(self, steps: int) -> bool:
        """Return whether the newest episodes follow the demonstrations for ``steps`` steps, and more steps exist."""
        if steps >= min(map(len, self._demonstrations)):
            return False
        expected = [
            self._order_kept(trajectory, reference, steps)
            for number, trajectory in enumerate(self._demonstrations)
            for reference in self._demonstrations[:number] + self._demonstrations[number + 1 :]
        ] or [steps]
        scores = [
            self._order_kept(episode, demonstration, steps)
            for episode in self._recent
            for demonstration in self._demonstrations
        ]
        return float(np.percentile(scores, 90)) >= int(self.config.threshold * float(np.median(expected)))

    def _order_kept(self, episode: Tensor, demonstration: Tensor, steps: int) -> int:
        nearest = state_costs(episode[:steps], demonstration[:steps], self.config.metric).argmin(1)
        return longest_increasing(nearest.tolist())

    def state(self) -> State:
        """Return demonstrations, the scales of costs and rewards, the newest episodes and the progress."""
        state = super().state()
        for kind, trajectories in (("demonstrations", self._demonstrations), ("recent", self._recent)):
            rows = torch.cat(trajectories) if trajectories else torch.zeros(0, self._input.size)
            state |= {kind: rows.numpy(), f"{kind}_lengths": np.array(list(map(len, trajectories)), dtype=np.int64)}
        return state

    def load(self, state: State) -> None:
        """Restore ``state``."""
        super().load(state)
        self._demonstrations = self._loaded(state, "demonstrations")
        self._recent = self._loaded(state, "recent")

    def _loaded(self, state: State, kind: str) -> list[Tensor]:
        rows = taken(state, kind, self._name, like=np.zeros((0, self._input.size), dtype=np.float32))
        lengths: NDArray[np.int64] = taken(state, f"{kind}_lengths", self._name, like=np.zeros(0, dtype=np.int64))
        if lengths.sum() != len(rows) or (lengths < 1).any():
            raise CheckpointError(f"reward module {self._name!r}: {kind} of {len(rows)} rows, lengths {lengths}")
        return [torch.from_numpy(part) for part in np.split(rows, np.cumsum(lengths)[:-1])] if lengths.size else []


def state_costs(ones: Tensor, others: Tensor, metric: str) -> Tensor:
    """Return the costs (n, m) of states (n, F) and (m, F); see :class:`.OptimalTransportOptions` for the metrics."""
    if metric == "cosine":
        return 1 - ones @ others.T
    if metric == "cauchy":
        return ((ones[:, None] - others) / ALIKE).square_().log1p_().mean(-1)
    return torch.cdist(ones, others, compute_mode="donot_use_mm_for_euclid_dist")


def farthest_neighbour(demonstrations: Sequence[Tensor], metric: str) -> float:
    """Return the largest cost from a state of a demonstration to the nearest state of the other demonstrations.

    With a single demonstration the other states of the same demonstration count instead.
    """
    largest = 1e-6
    for number, states in enumerate(demonstrations):
        other_demonstrations = [*demonstrations[:number], *demonstrations[number + 1 :]]
        costs = torch.cat(
            [state_costs(states, other_states, metric) for other_states in other_demonstrations or [states]], dim=1
        )
        if not other_demonstrations:
            costs.fill_diagonal_(0 if len(states) == 1 else torch.inf)
        largest = max(largest, float(costs.amin(1).max()))
    return largest


def longest_increasing(numbers: Sequence[int]) -> int:
    """Return the length of the longest strictly increasing subsequence, by patience sorting."""
    tops: list[int] = []
    for number in numbers:
        place = bisect.bisect_left(tops, number)
        tops[place : place + 1] = [number]
    return len(tops)
