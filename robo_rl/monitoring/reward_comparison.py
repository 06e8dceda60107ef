"""Agreement of rewards with the true progress over several episodes, and the distances between rewards."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from ..core import Batch, TermScorer
from ..evaluation.correlation import calibration_error, rank_correlation
from ..evaluation.reward_distance import features, least, matrix, starc
from ..replay import EpisodeArrays

STARC_STEPS = 2
"""Smallest number of transitions per feature of the potentials. With one per feature, shaping explains any reward."""


@dataclass(frozen=True)
class Agreement:
    """Agreement of a reward with the true progress: rank correlation (Spearman) and calibration.

    Attributes:
        steps: correlation over all steps of all episodes.
        within: correlation over the steps of one episode; the median over the episodes.
        episodes: correlation of the mean rewards of the episodes.
        calibration: calibration error of the reward as a probability of success, if all values can be probabilities
            and the task reports success.
    """

    steps: float | None
    within: float | None
    episodes: float | None
    calibration: float | None


class Distances(NamedTuple):
    """Distances between rewards.

    Attributes:
        values: distance of each reward to every other; None if there are too few steps.
        steps: number of steps for the estimate.
        needed: smallest number of steps for an estimate.
    """

    values: Mapping[str, Mapping[str, float | None]]
    steps: int
    needed: int


class Comparison(NamedTuple):
    """Comparison of rewards.

    Attributes:
        agreement: agreement of each term with the true progress.
        starc: STARC distances between the rewards of the modules and the true progress, estimated on the episodes.
    """

    agreement: dict[str, Agreement]
    starc: Distances


def compare_rewards(scorer: TermScorer, episodes: Sequence[EpisodeArrays], discount: float) -> Comparison:
    """Compare each term that ``scorer`` computes with the true progress and with the other terms.

    Args:
        scorer: reward modules.
        episodes: one or more episodes with the terms of the task.
        discount: discount of future rewards, for the distances.
    """
    rewards: dict[str, list[NDArray[np.float32]]] = {name: [] for name in scorer.terms}
    progress, rows, succeeded = [], [], []
    for episode in episodes:
        rows.append(episode.rows())
        for name, values in scorer.score(rows[-1], online=False).items():
            rewards[name].append(values)
        progress.append(true_progress(episode))
        if "success" in episode.rewards:
            succeeded.append(episode.rewards["success"])
    all_rows = {key: np.concatenate([episode_rows[key] for episode_rows in rows]) for key in rows[0]}
    return Comparison(
        {name: agreement(values, progress, succeeded) for name, values in rewards.items()},
        _starc_distances({**rewards, "progress": progress}, all_rows, discount),
    )


def print_comparison(console: Console, comparison: Comparison) -> None:
    """Print tables of agreement and distances."""
    header = ("module", "steps", "within episodes", "between episodes", "calibration error")
    table = Table(*header, box=None, pad_edge=False)
    for name, result in comparison.agreement.items():
        numbers = (result.steps, result.within, result.episodes, result.calibration)
        table.add_row(name, *("none" if number is None else f"{number:.2f}" for number in numbers))
    console.print(table)
    distances = comparison.starc
    table = Table("STARC distance", *distances.values, box=None, pad_edge=False)
    for module, row in distances.values.items():
        table.add_row(module, *("-" if distance is None else f"{distance:.2f}" for distance in row.values()))
    console.print(table)
    if distances.steps < distances.needed:
        note = f"STARC takes {distances.needed:,} steps or more, there are {distances.steps:,}: add episodes"
        console.print(note, soft_wrap=True)


def true_progress(episode: EpisodeArrays) -> NDArray[np.float32]:
    """Return the sum (L,) of the terms of the task."""
    progress: NDArray[np.float32] = np.sum(list(episode.rewards.values()), axis=0)
    return progress


def agreement(
    rewards: Sequence[NDArray[np.float32]],
    progress: Sequence[NDArray[np.float32]],
    succeeded: Sequence[NDArray[np.float32]],
) -> Agreement:
    """Compare rewards with true progress and success, (steps,) per episode; ``succeeded`` is empty if unknown."""
    correlations = [rank_correlation(*pair) for pair in zip(rewards, progress, strict=True)]
    defined = [value for value in correlations if value is not None]
    return Agreement(
        steps=rank_correlation(np.concatenate(rewards), np.concatenate(progress)),
        within=float(np.median(defined)) if defined else None,
        episodes=rank_correlation([values.mean() for values in rewards], [values.mean() for values in progress]),
        calibration=calibration_error(np.concatenate(rewards), np.concatenate(succeeded)) if succeeded else None,
    )


def _starc_distances(rewards: Mapping[str, Sequence[NDArray[np.float32]]], rows: Batch, discount: float) -> Distances:
    before, after = features(rows)
    steps, needed = len(before), STARC_STEPS * before.shape[1]
    if steps < needed:
        return Distances({name: dict.fromkeys(rewards) for name in rewards}, steps, needed)
    forms = {
        name: least(np.concatenate(values).astype(np.float64), before, after, discount)
        for name, values in rewards.items()
    }
    return Distances(matrix(forms, starc), steps, needed)
