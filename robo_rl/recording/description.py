"""Description of a data set: counts, statistics of actions and returns, the delay of motion, and flagged episodes."""

import contextlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from ..core import EnvSpec, counted, printable
from ..evaluation.run_start import check_run, run_text
from ..replay import EpisodeArrays, EpisodeStore, StoreSummary
from .quality import FLAGS, EpisodeQuality, is_picture, measure, motion_delay

MOST_SHOWN = 30
"""Largest number of flagged episodes that are printed; the JSON file lists all of them."""


@dataclass(frozen=True)
class ElementStatistics:
    """Statistics of one element of the executed actions.

    Attributes:
        name: name of the element.
        mean: mean value.
        deviation: standard deviation.
        low: smallest value.
        high: largest value.
        at_bounds: share of the values at a bound of the action.
    """

    name: str
    mean: float
    deviation: float
    low: float
    high: float
    at_bounds: float


@dataclass(frozen=True)
class DataDescription:
    """Description of a data set.

    Attributes:
        task: name of the recorded task.
        control_rate: rate of the steps [Hz].
        collected: number of episodes by the run whose policy collected them; empty if no policy did.
        summary: counts of episodes, steps, successes and sources.
        reports_success: whether the success of episodes is known.
        steps: smallest, median and largest number of steps of an episode.
        actions: statistics by element of the executed action.
        returns: smallest, mean and largest sum over an episode, by reward term.
        delay_seconds: time from an action to the motion that it causes [s]; None if the data do not determine it.
        episodes: measurements and flags of each episode.
    """

    task: str
    control_rate: float
    collected: Mapping[str, int]
    summary: StoreSummary
    reports_success: bool
    steps: tuple[int, float, int]
    actions: Sequence[ElementStatistics]
    returns: Mapping[str, tuple[float, float, float]]
    delay_seconds: float | None
    episodes: Sequence[EpisodeQuality]

    @property
    def flagged(self) -> list[EpisodeQuality]:
        """Episodes with at least one flag."""
        return [episode for episode in self.episodes if episode.flags]


def describe(store: EpisodeStore, pictures: bool = True) -> DataDescription:
    """Describe a data set with at least one episode.

    Args:
        store: open data set. One episode at a time is in memory with its pictures.
        pictures: whether pictures are read and checked.

    Raises:
        DataError: if the data is damaged.
    """
    spec = store.spec if pictures else _without_pictures(store.spec)
    numbers = _without_pictures(spec)
    small: list[EpisodeArrays] = []

    def read() -> Any:
        for number in range(len(store)):
            episode = store.arrays(number, spec.observation.keys())
            kept = {key: episode.observation[key] for key in numbers.observation}
            small.append(EpisodeArrays(**{**vars(episode), "observation": kept}))
            yield episode

    episodes = measure(read(), spec)
    lengths = [episode.steps for episode in episodes]
    return DataDescription(
        task=spec.task,
        control_rate=spec.control_rate,
        collected=_collected(store),
        summary=store.summary(),
        reports_success=any(episode.success is not None for episode in episodes),
        steps=(min(lengths), float(np.median(lengths)), max(lengths)),
        actions=_action_statistics(small, spec),
        returns=_returns(small, spec),
        delay_seconds=motion_delay(small, spec),
        episodes=episodes,
    )


def _collected(store: EpisodeStore) -> dict[str, int]:
    """Return the number of episodes by the run that collected them, as text. Facts in files may be damaged."""
    origins, own = store.metadata.get("origins"), store.metadata.get("collected_from")
    listed: list[Any] = origins[: len(store)] if isinstance(origins, list) else [{"collected_from": own}] * len(store)
    counts: Counter[str] = Counter()
    for origin in listed:
        with contextlib.suppress(AttributeError, KeyError, TypeError, ValueError):
            facts = origin["collected_from"]
            check_run(facts)
            counts[run_text(facts)] += 1
    return dict(counts)


def _without_pictures(spec: EnvSpec) -> EnvSpec:
    kept = {key: array for key, array in spec.observation.items() if not is_picture(array)}
    return EnvSpec(**{**vars(spec), "observation": kept})


def _action_statistics(episodes: Sequence[EpisodeArrays], spec: EnvSpec) -> list[ElementStatistics]:
    actions = np.concatenate([episode.executed_action for episode in episodes]).astype(np.float64)
    low, high = (np.broadcast_to(bound, actions.shape[1:]) for bound in (spec.action.low, spec.action.high))
    margin = np.where(np.isfinite(high - low), 0.005 * (high - low), 0.0)
    at_bounds = ((actions <= low + margin) | (actions >= high - margin)).mean(axis=0)
    names = spec.action.names or tuple(map(str, range(actions.shape[1])))
    columns = zip(names, actions.mean(0), actions.std(0), actions.min(0), actions.max(0), at_bounds, strict=True)
    return [ElementStatistics(name, *map(float, values)) for name, *values in columns]


def _returns(episodes: Sequence[EpisodeArrays], spec: EnvSpec) -> dict[str, tuple[float, float, float]]:
    sums = {term: np.array([episode.rewards[term].sum() for episode in episodes]) for term in spec.reward_terms}
    return {term: (float(each.min()), float(each.mean()), float(each.max())) for term, each in sums.items()}


def print_description(console: Console, path: str, description: DataDescription) -> None:
    """Print a description, and the command that removes the flagged episodes."""
    summary, rate = description.summary, description.control_rate
    episodes, steps = counted(summary.episodes, "episode"), counted(summary.steps, "step")
    minutes = summary.steps / rate / 60

    def line(title: str, text: str) -> None:
        console.print(f"{title:<12}{printable(text)}", markup=False, soft_wrap=True)

    line("Data set", f"{path}: {description.task}, {episodes}, {steps}, {minutes:.1f} minutes at {rate:g} Hz")
    line("Success", f"{summary.successes} of {summary.episodes}" if description.reports_success else "unknown")
    line("Actions by", ", ".join(f"{name} {count:,}" for name, count in summary.sources.items() if count))
    for run, count in description.collected.items():
        line("Collected", f"{counted(count, 'episode')} from {run}")
    shortest, median, longest = description.steps
    line("Length", f"{shortest} to {longest} steps, median {median:g}")
    for term, (low, mean, high) in description.returns.items():
        line("Return", f"{term}: {low:.3g} to {high:.3g}, mean {mean:.3g}")
    delay = description.delay_seconds
    periods = (
        "not determined by the data" if delay is None else f"{counted(round(delay * rate), 'control period')} later"
    )
    line("Motion", "in the period of its action" if delay == 0 else periods)
    table = Table("action", "mean", "deviation", "lowest", "highest", "at a bound", box=None, pad_edge=False)
    for each in description.actions:
        values = (f"{value:.3g}" for value in (each.mean, each.deviation, each.low, each.high))
        table.add_row(printable(each.name), *values, f"{100 * each.at_bounds:.0f} %")
    console.print(table)
    _print_flagged(console, path, description)


def _print_flagged(console: Console, path: str, description: DataDescription) -> None:
    flagged = description.flagged
    if not flagged:
        console.print("No episode is flagged")
        return
    console.print(f"{counted(len(flagged), 'flagged episode')}:")
    for episode in flagged[:MOST_SHOWN]:
        text = "; ".join(f"{name}: {detail}" for name, detail in episode.flags.items())
        console.print(f"  {episode.number:>4}  {text}", markup=False, soft_wrap=True)
    if len(flagged) > MOST_SHOWN:
        console.print(f"  and {len(flagged) - MOST_SHOWN} more")
    if len(flagged) == len(description.episodes):
        return  # removing all flagged episodes would leave none
    names = ",".join(name for name in FLAGS if any(name in episode.flags for episode in flagged))
    console.print(
        f"Without them: robo-rl data edit path={path} output=NEW drop_flagged=[{names}]", markup=False, soft_wrap=True
    )
