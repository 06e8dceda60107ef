"""Options of the reward module that compares episodes with demonstrations by optimal transport."""

from dataclasses import dataclass

from robo_rl.core import option

from ..parts.vector_config import VectorConfig

REWARDS = ("progress", "cost")
METRICS = ("cauchy", "euclidean", "cosine")


@dataclass(frozen=True)
class OptimalTransportOptions(VectorConfig):
    """Reward for episodes that pass through the same states as a demonstration. No actions are needed.

    Attributes (besides those of :class:`.VectorConfig`):
        reward: reward of a step: ``progress``, minus the share of the demonstrations that is still ahead of the part to
            which the step is transported; or ``cost``, minus the cost of this transport, as published.
        metric: cost of two states: ``cauchy`` (mean over elements, divided by their standard deviations over the
            demonstrations, of minus their log density under Cauchy's distribution, so that a few that are far from all
            demonstrations do not dominate the others), ``euclidean`` (of such elements, as published for states) or
            ``cosine`` (as published for features of images).
        epsilon: weight of the plan's entropy, relative to the mean cost.
        iterations: number of iterations of Sinkhorn's algorithm.
        scheduled_discount: limit the agent's horizon to how far it has learned to follow the demonstrations.
        first_progress: share of a demonstration that counts as followed at the beginning, in (0, 1].
        discount_base: base of the discount, which is this number to the power of 1/k, where k is the number of followed
            steps.
        interval: number of episodes between two checks of the progress, which use the newest ``interval`` episodes.
        threshold: share of the demonstrations' median score for keeping their order that the 90th percentile of the
            episodes has to reach for progress.
        largest_advance: largest number of steps by which progress grows at one check.
    """

    reward: str = option("progress", choices=REWARDS)
    metric: str = option("cauchy", choices=METRICS)
    epsilon: float = option(0.1, above=0)
    iterations: int = option(100, low=1)
    scheduled_discount: bool = False
    first_progress: float = option(0.2, above=0, high=1)
    discount_base: float = option(0.2, above=0, below=1)
    interval: int = option(10, low=1)
    threshold: float = option(0.9, above=0, high=1)
    largest_advance: int = option(5, low=1)
