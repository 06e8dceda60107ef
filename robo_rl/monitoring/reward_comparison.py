"""How rewards agree with the truth over several episodes, and how far they are from each other."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from ..core import Batch, TermScorer
from ..evaluation.correlation import calibration_error, rank_correlation
from ..evaluation.reward_distance import epic, features, least, matrix, sampled_mean_adjusted, starc
from ..replay import EpisodeArrays

EPIC_ROWS = 256
"""Transitions that EPIC is measured on."""
EPIC_SAMPLES = 32
"""Draws that its means are taken over; of fewer transitions it is not estimated."""
STARC_STEPS = 2
"""Transitions for each feature of the potentials: with no more than there are features, shaping explains any reward."""


@dataclass(frozen=True)
class Agreement:
    """How a reward agrees with the truth: rank correlation (Spearman) with the sum of the task terms, and calibration.

    Attributes:
        steps: over all steps of all episodes.
        within: over the steps of one episode; the median of all episodes.
        episodes: of the episodes' mean rewards.
        calibration: error as a probability of success, where all values may be one and the task tells success.
    """

    steps: float | None
    within: float | None
    episodes: float | None
    calibration: float | None


class Distances(NamedTuple):
    """Distances between rewards.

    Attributes:
        values: of each to each; None where there are too few steps.
        steps: that they are estimated on.
        needed: so many, or more.
    """

    values: Mapping[str, Mapping[str, float | None]]
    steps: int
    needed: int


class Comparison(NamedTuple):
    """What was found out about the rewards.

    Attributes:
        agreement: of each term.
        starc: between the rewards of the modules and the true progress; estimated on the episodes.
        epic: the same, of modules that judge single transitions.
    """

    agreement: dict[str, Agreement]
    starc: Distances
    epic: Distances


def compare_rewards(
    scorer: TermScorer, episodes: Sequence[EpisodeArrays], discount: float, rng: np.random.Generator
) -> Comparison:
    """Compare each term that ``scorer`` computes with the truth and with the others.

    Args:
        scorer: the modules.
        episodes: one or more, which know the task's own terms.
        discount: of future rewards, for the distances.
        rng: for the transitions that EPIC puts together.
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
    everything = {key: np.concatenate([each[key] for each in rows]) for key in rows[0]}
    return Comparison(
        {name: agreement(values, progress, succeeded) for name, values in rewards.items()},
        _starc_distances({**rewards, "progress": progress}, everything, discount),
        _epic_distances(scorer, everything, discount, rng),
    )


def print_comparison(console: Console, comparison: Comparison) -> None:
    """Print tables of agreement and distances."""
    header = ("module", "steps", "within episodes", "between episodes", "calibration error")
    table = Table(*header, box=None, pad_edge=False)
    for name, found in comparison.agreement.items():
        numbers = (found.steps, found.within, found.episodes, found.calibration)
        table.add_row(name, *("none" if number is None else f"{number:.2f}" for number in numbers))
    console.print(table)
    for name, distances in (("STARC", comparison.starc), ("EPIC", comparison.epic)):
        if len(distances.values) > 1:
            table = Table(f"{name} distance", *distances.values, box=None, pad_edge=False)
            for one, row in distances.values.items():
                table.add_row(one, *("-" if distance is None else f"{distance:.2f}" for distance in row.values()))
            console.print(table)
            if distances.steps < distances.needed:
                few = f"{name} takes {distances.needed:,} steps or more, there are {distances.steps:,}: add episodes"
                console.print(few, soft_wrap=True)


def true_progress(episode: EpisodeArrays) -> NDArray[np.float32]:
    """Return the sum (L,) of the task's own terms."""
    progress: NDArray[np.float32] = np.sum(list(episode.rewards.values()), axis=0)
    return progress


def agreement(
    rewards: Sequence[NDArray[np.float32]],
    progress: Sequence[NDArray[np.float32]],
    succeeded: Sequence[NDArray[np.float32]],
) -> Agreement:
    """Compare rewards with true progress and success, (steps,) of each episode; no ``succeeded``: it is not known."""
    each = [rank_correlation(*pair) for pair in zip(rewards, progress, strict=True)]
    known = [value for value in each if value is not None]
    return Agreement(
        steps=rank_correlation(np.concatenate(rewards), np.concatenate(progress)),
        within=float(np.median(known)) if known else None,
        episodes=rank_correlation([values.mean() for values in rewards], [values.mean() for values in progress]),
        calibration=calibration_error(np.concatenate(rewards), np.concatenate(succeeded)) if succeeded else None,
    )


def _starc_distances(rewards: Mapping[str, Sequence[NDArray[np.float32]]], rows: Batch, discount: float) -> Distances:
    before, after = features(rows)
    steps, needed = len(before), STARC_STEPS * before.shape[1]
    if steps < needed:
        return _unknown(rewards, steps, needed)
    forms = {
        name: least(np.concatenate(values).astype(np.float64), before, after, discount)
        for name, values in rewards.items()
    }
    return Distances(matrix(forms, starc), steps, needed)


def _epic_distances(scorer: TermScorer, rows: Batch, discount: float, rng: np.random.Generator) -> Distances:
    """Judge transitions that are put together of states and actions of some rows."""
    steps = len(rows["action"])
    if steps < EPIC_SAMPLES:
        return _unknown(scorer.judge(rows), steps, EPIC_SAMPLES)
    chosen = rng.choice(steps, min(steps, EPIC_ROWS), replace=False)
    forms = sampled_mean_adjusted(
        scorer.judge, {key: values[chosen] for key, values in rows.items()}, discount, EPIC_SAMPLES, rng
    )
    return Distances(matrix(forms, epic), steps, EPIC_SAMPLES)


def _unknown(names: Collection[str], steps: int, needed: int) -> Distances:
    return Distances({name: dict.fromkeys(names) for name in names}, steps, needed)
