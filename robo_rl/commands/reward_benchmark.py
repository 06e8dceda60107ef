"""robo-rl reward benchmark: how well reward modules agree with the true progress of a task."""

import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from omegaconf import DictConfig
from rich.console import Console
from rich.table import Table

from ..app import build_backend, build_reward
from ..core import Batch, EnvBackend, Metrics, Scorer, derive_seed, generator, require
from ..evaluation.correlation import calibration_error, rank_correlation
from ..evaluation.reward_distance import (
    epic,
    features,
    least,
    matrix,
    sampled_mean_adjusted,
    starc,
)
from ..replay import EpisodeStore, ReplayRing
from .record import record_expert
from .recording import typed

NOISES = (0.1, 0.3, 0.5, 0.75, 1.0)
"""Deviations of the noise on the expert's actions: from nearly perfect to mostly noise."""


POLL_SECONDS = 0.02
"""Between two looks whether answers have arrived."""


EPIC_ROWS = 256
"""Transitions that EPIC is measured on."""
EPIC_SAMPLES = 32
"""Draws that its means are taken over."""


@dataclass(frozen=True)
class RewardBenchmarkConfig:
    """The section ``benchmark`` of configs/reward_benchmark.yaml, where options and defaults are explained."""

    demonstrations: int
    demonstration_noise: float
    practice_episodes: int
    practice_steps: int
    episodes: int
    discount: float
    output: str | None

    def __post_init__(self) -> None:
        for key in ("demonstrations", "practice_steps"):
            require(getattr(self, key) >= 0, f"benchmark.{key}", "0 or more", getattr(self, key))
        for key in ("practice_episodes", "episodes"):
            allowed = f"{len(NOISES)} or more, as there are so many kinds"
            require(getattr(self, key) >= len(NOISES), f"benchmark.{key}", allowed, getattr(self, key))
        require(0 <= self.discount < 1, "benchmark.discount", "in [0, 1)", self.discount)
        noise = self.demonstration_noise
        require(0 <= noise <= 1, "benchmark.demonstration_noise", "in [0, 1]", noise)


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


class Measured(NamedTuple):
    """What was found out about the modules.

    Attributes:
        agreement: of each term.
        learned: the last metrics of the modules that learn.
        starc: distances between the rewards of the modules and the true progress, each to each; estimated on the
            held-out episodes.
        epic: the same, of modules that judge single transitions.
    """

    agreement: dict[str, Agreement]
    learned: Metrics
    starc: dict[str, dict[str, float]]
    epic: dict[str, dict[str, float]]


def run(config: DictConfig) -> int:
    """Measure as configs/reward_benchmark.yaml says, and print a table; return 0."""
    settings = typed(RewardBenchmarkConfig, config, "benchmark")
    backend = build_backend(config)
    try:
        reward = build_reward(config.reward, backend.spec, config.seed)
        require(reward.scorer is not None, "reward.modules", "one or more modules", "none")
        assert reward.scorer is not None
        with tempfile.TemporaryDirectory() as folder:
            measured = measure(backend, reward.scorer, settings, config.seed, Path(folder))
    finally:
        backend.close()
    header = ("module", "steps", "within episodes", "between episodes", "calibration error")
    table = Table(*header, box=None, pad_edge=False)
    for name, agreement in measured.agreement.items():
        numbers = (agreement.steps, agreement.within, agreement.episodes, agreement.calibration)
        table.add_row(name, *("none" if number is None else f"{number:.2f}" for number in numbers))
    console = Console(highlight=False)
    console.print(
        f"{backend.spec.task}: rank correlation with true progress, {settings.episodes} held-out episodes, "
        f"{settings.demonstrations} demonstrations, seed {config.seed}",
        soft_wrap=True,
    )
    console.print(table)
    for name, distances in (("STARC", measured.starc), ("EPIC", measured.epic)):
        if len(distances) > 1:
            table = Table(f"{name} distance", *distances, box=None, pad_edge=False)
            for one, row in distances.items():
                table.add_row(one, *(f"{distance:.2f}" for distance in row.values()))
            console.print(table)
    if measured.learned:
        told = ", ".join(f"{name} {value:,.6g}" for name, value in measured.learned.items())
        console.print(f"learned: {told}", soft_wrap=True)
    if settings.output is not None:
        measured_with = asdict(settings)
        del measured_with["output"]  # a path of this machine
        results = {
            "task": backend.spec.task,
            "seed": config.seed,
            **measured_with,
            "modules": {name: asdict(agreement) for name, agreement in measured.agreement.items()},
            "learned": measured.learned,
            "starc": measured.starc,
            "epic": measured.epic,
        }
        Path(settings.output).write_text(json.dumps(results, indent=2) + "\n")
    return 0


def measure(backend: EnvBackend, scorer: Scorer, settings: RewardBenchmarkConfig, seed: int, folder: Path) -> Measured:
    """Compare each term that ``scorer`` computes with the truth.

    Args:
        backend: must have an expert.
        scorer: the modules, new.
        settings: how many episodes.
        seed: of start states and noise.
        folder: for the episodes, empty.

    Raises:
        ConfigError: if the backend has no expert.
        DataError: if a module cannot do with the demonstrations.
    """
    if settings.demonstrations:
        path = folder / "demonstrations"
        seed_of_part = derive_seed(seed, "demonstrations")
        record_expert(backend, path, settings.demonstrations, noise=settings.demonstration_noise, seed=seed_of_part)
        store = EpisodeStore.open(path)
        scorer.fit([store.arrays(number).rows() for number in range(len(store))])
    else:
        scorer.fit([])
    learned: Metrics = {}
    if scorer.learns:
        practice = graded_episodes(backend, folder / "practice", settings.practice_episodes, seed)
        ring = ReplayRing(practice.ring_slots(), backend.spec, scorer.terms)
        practice.load_into(ring)
        ring.score_held(scorer, online=True)
        while _awaited_answers(scorer):  # about episodes that cannot be scored before
            ring.score_held(scorer, online=True)
        for _ in range(settings.practice_steps):
            learned |= scorer.update(ring)
            if _awaited_answers(scorer):
                learned |= scorer.update(ring)
    held_out = graded_episodes(backend, folder / "held_out", settings.episodes, seed)
    rewards: dict[str, list[NDArray[np.float32]]] = {name: [] for name in scorer.terms}
    progress, rows, succeeded = [], [], []
    for number in range(len(held_out)):
        episode = held_out.arrays(number)
        rows.append(episode.rows())
        for name, values in scorer.score(rows[-1], online=False).items():
            rewards[name].append(values)
        progress.append(np.sum(list(episode.rewards.values()), axis=0))
        if "success" in episode.rewards:
            succeeded.append(episode.rewards["success"])
    everything = {key: np.concatenate([each[key] for each in rows]) for key in rows[0]}
    return Measured(
        {name: agreement(values, progress, succeeded) for name, values in rewards.items()},
        learned,
        _starc_distances({**rewards, "progress": progress}, everything, settings.discount),
        _epic_distances(scorer, everything, settings.discount, generator(seed, "distances")),
    )


def _starc_distances(
    rewards: Mapping[str, Sequence[NDArray[np.float32]]], rows: Batch, discount: float
) -> dict[str, dict[str, float]]:
    before, after = features(rows)
    forms = {
        name: least(np.concatenate(values).astype(np.float64), before, after, discount)
        for name, values in rewards.items()
    }
    return matrix(forms, starc)


def _epic_distances(
    scorer: Scorer, rows: Batch, discount: float, rng: np.random.Generator
) -> dict[str, dict[str, float]]:
    """Judge transitions that are put together of states and actions of some rows."""
    count = len(rows["action"])
    chosen = rng.choice(count, min(count, EPIC_ROWS), replace=False)
    forms = sampled_mean_adjusted(
        scorer.judge, {key: values[chosen] for key, values in rows.items()}, discount, EPIC_SAMPLES, rng
    )
    return matrix(forms, epic)


def _awaited_answers(scorer: Scorer) -> bool:
    """Wait for all that modules asked, as no robot waits here; return whether there was anything to wait for."""
    waited = False
    while scorer.waiting:
        waited = True
        time.sleep(POLL_SECONDS)
    return waited


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


def graded_episodes(backend: EnvBackend, path: Path, episodes: int, seed: int) -> EpisodeStore:
    """Record episodes of the expert, about as many at each of the noises."""
    for number, noise in enumerate(NOISES):
        count = (episodes + number) // len(NOISES)
        seed_of_part = derive_seed(seed, path.name, number)
        record_expert(backend, path, count, noise=noise, seed=seed_of_part, only_successful=False, if_exists="append")
    return EpisodeStore.open(path)
