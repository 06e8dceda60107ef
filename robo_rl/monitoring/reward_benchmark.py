"""Command ``robo-rl reward benchmark``, which compares reward modules with the true progress of a task."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ..core import EnvBackend, Metrics, Scorer, derive_seed, require
from ..recording.teleoperation import record_expert
from ..replay import EpisodeStore, ReplayRing
from .reward_comparison import Comparison, compare_rewards

NOISES = (0.1, 0.3, 0.5, 0.75, 1.0)
"""Standard deviations of the noise on the expert's actions: from nearly perfect to mostly noise."""


POLL_SECONDS = 0.02
"""Time between two checks for answers [s]."""


@dataclass(frozen=True)
class RewardBenchmarkConfig:
    """The section ``benchmark`` of configs/reward_benchmark.yaml, which documents the options and their defaults."""

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


class Measured(NamedTuple):
    """Results of a benchmark: the comparison of the rewards, and the last metrics of the learned modules."""

    comparison: Comparison
    learned: Metrics


def measure(backend: EnvBackend, scorer: Scorer, settings: RewardBenchmarkConfig, seed: int, folder: Path) -> Measured:
    """Compare each term that ``scorer`` computes with the true progress.

    Args:
        backend: backend with an expert.
        scorer: untrained reward modules.
        settings: numbers of episodes and other options.
        seed: seed of start states and noise.
        folder: empty folder for the episodes.

    Raises:
        ConfigError: if the backend has no expert.
        DataError: if a module cannot use the demonstrations.
    """
    if settings.demonstrations:
        path = folder / "demonstrations"
        seed_of_part = derive_seed(seed, "demonstrations")
        noise = settings.demonstration_noise
        record_expert(backend, path, settings.demonstrations, noise=noise, seed=seed_of_part, section=None)
        store = EpisodeStore.open(path)
        learned = scorer.fit([store.arrays(number).rows() for number in range(len(store))])
    else:
        learned = scorer.fit([])
    if scorer.learns:
        practice = graded_episodes(backend, folder / "practice", settings.practice_episodes, seed)
        ring = ReplayRing(practice.ring_slots(), backend.spec, scorer.terms)
        practice.load_into(ring)
        ring.score_held(scorer, online=True)
        while _await_answers(scorer):  # otherwise some episodes could not be scored
            ring.score_held(scorer, online=True)
        for _ in range(settings.practice_steps):
            learned |= scorer.update(ring.rows)
            if _await_answers(scorer):
                learned |= scorer.update(ring.rows)
    held_out = graded_episodes(backend, folder / "held_out", settings.episodes, seed)
    episodes = [held_out.arrays(number) for number in range(len(held_out))]
    return Measured(compare_rewards(scorer, episodes, settings.discount), learned)


def _await_answers(scorer: Scorer) -> bool:
    """Wait for the answers that modules have requested; return whether there were any.

    Waiting is harmless, because no robot is running.
    """
    has_waited = False
    while scorer.waiting:
        has_waited = True
        time.sleep(POLL_SECONDS)
    return has_waited


def graded_episodes(backend: EnvBackend, path: Path, episodes: int, seed: int) -> EpisodeStore:
    """Record episodes of the expert, about the same number at each of :data:`NOISES`."""
    for number, noise in enumerate(NOISES):
        count = (episodes + number) // len(NOISES)
        seed_of_part = derive_seed(seed, path.name, number)
        record_expert(
            backend,
            path,
            count,
            noise=noise,
            seed=seed_of_part,
            only_successful=False,
            if_exists="append",
            section=None,
        )
    return EpisodeStore.open(path)
