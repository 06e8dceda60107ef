"""robo-rl reward benchmark: how well reward modules agree with the true progress of a task."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ..core import EnvBackend, Metrics, Scorer, derive_seed, generator, require
from ..recording.teleoperation import record_expert
from ..replay import EpisodeStore, ReplayRing
from .reward_comparison import Comparison, compare_rewards

NOISES = (0.1, 0.3, 0.5, 0.75, 1.0)
"""Deviations of the noise on the expert's actions: from nearly perfect to mostly noise."""


POLL_SECONDS = 0.02
"""Between two looks whether answers have arrived."""


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


class Measured(NamedTuple):
    """What was found out about the modules: how their rewards compare, and the last metrics of those that learn."""

    comparison: Comparison
    learned: Metrics


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
        while _awaited_answers(scorer):  # about episodes that cannot be scored before
            ring.score_held(scorer, online=True)
        for _ in range(settings.practice_steps):
            learned |= scorer.update(ring.rows)
            if _awaited_answers(scorer):
                learned |= scorer.update(ring.rows)
    held_out = graded_episodes(backend, folder / "held_out", settings.episodes, seed)
    episodes = [held_out.arrays(number) for number in range(len(held_out))]
    return Measured(
        compare_rewards(scorer, episodes, settings.discount, generator(seed, "distances")),
        learned,
    )


def _awaited_answers(scorer: Scorer) -> bool:
    """Wait for all that modules asked, as no robot waits here; return whether there was anything to wait for."""
    waited = False
    while scorer.waiting:
        waited = True
        time.sleep(POLL_SECONDS)
    return waited


def graded_episodes(backend: EnvBackend, path: Path, episodes: int, seed: int) -> EpisodeStore:
    """Record episodes of the expert, about as many at each of the noises."""
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
