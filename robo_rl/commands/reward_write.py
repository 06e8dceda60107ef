"""robo-rl reward write: reward code for a task by a language model, improved by a person's feedback."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, cast

import numpy as np
from omegaconf import DictConfig

from ..app import build, build_backend
from ..command_line.destination import new_output
from ..core import (
    Batch,
    ConfigError,
    DataError,
    EnvSpec,
    RewardModule,
    read_bytes,
    require,
    scratch_folder,
    typed,
)
from ..evaluation.correlation import rank_correlation
from ..monitoring.reward_benchmark import NOISES, graded_episodes
from ..telemetry import Console

CODE_BYTES = 1 << 20
"""Largest size of a file with earlier code [bytes]."""


@dataclass(frozen=True)
class RewardWriteConfig:
    """The section ``code`` of configs/reward_write.yaml, which documents the options and holds their defaults."""

    goal: str
    output: str
    previous: str | None
    feedback: str | None
    episodes: int

    def __post_init__(self) -> None:
        require(bool(self.goal.strip()), "code.goal", "a description of what the robot must do", self.goal)
        allowed = f"{len(NOISES)} or more, one for each kind"
        require(self.episodes >= len(NOISES), "code.episodes", allowed, self.episodes)
        require(self.feedback is None or self.previous is not None, "code.previous", "a file if feedback is set", None)


class Writer(Protocol):
    """Object that the configuration group ``writer`` makes."""

    def write(
        self, goal: str, spec: EnvSpec, episodes: Sequence[Batch], previous: str | None, feedback: str | None
    ) -> tuple[str, RewardModule]:
        """Return code that runs on ``episodes``, and the reward module that runs it."""
        ...

    def cost(self) -> str:
        """Return a description of the requests so far, for display."""
        ...


def run(config: DictConfig) -> int:
    """Have code written as configured in configs/reward_write.yaml, and print its rank correlation; return 0."""
    settings = typed(RewardWriteConfig, config, "code")
    output = new_output("code.output", settings.output, "file")
    previous = None
    if settings.previous is not None:
        try:
            previous = read_bytes(Path(settings.previous), CODE_BYTES).decode()
        except (DataError, OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"code.previous: {settings.previous} cannot be read: {error}") from error
    writer = cast(Writer, build(config.writer))
    backend = build_backend(config)
    try:
        with scratch_folder() as folder:
            store = graded_episodes(backend, folder / "episodes", settings.episodes, config.seed)
            episodes = [store.arrays(number) for number in range(len(store))]
    finally:
        backend.close()
    rows = [episode.rows() for episode in episodes]
    code, module = writer.write(settings.goal, backend.spec, rows, previous, settings.feedback)
    output.write_text(code, encoding="utf-8")
    progress = np.concatenate([np.sum(list(episode.rewards.values()), axis=0) for episode in episodes])
    agreement = rank_correlation(np.concatenate([module(each) for each in rows]), progress)
    console = Console(highlight=False)
    console.print(f"asked: {writer.cost()}", soft_wrap=True)
    number = "none" if agreement is None else f"{agreement:.2f}"
    console.print(f"rank correlation with true progress on {len(episodes)} episodes: {number}", soft_wrap=True)
    console.print(f"reward=code reward.modules.code.file={output}", markup=False, soft_wrap=True)
    return 0
