"""robo-rl vision contrast: a small image encoder from recordings of play."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
import torch
from numpy.typing import NDArray
from omegaconf import DictConfig
from rich.table import Table

from ..app import build
from ..command_line.destination import new_output
from ..command_line.model_making import make_model
from ..core import ConfigError, generator, nearest, require, typed
from ..replay import EpisodeStore
from ..telemetry import Console

PREFIX = "images/"
Frames = NDArray[np.uint8]


@dataclass(frozen=True)
class PlayConfig:
    """The section ``play`` of configs/vision_contrast.yaml, which documents the options and holds their defaults."""

    paths: tuple[str, ...]
    cameras: tuple[str, ...] | None
    held_out: float

    def __post_init__(self) -> None:
        require(bool(self.paths), "play.paths", "at least one data set", list(self.paths))
        require(self.cameras is None or bool(self.cameras), "play.cameras", "null or at least one camera", [])
        require(0 < self.held_out < 1, "play.held_out", "in (0, 1)", self.held_out)


class Trainer(Protocol):
    """Object that the configuration group ``contrastive_trainer`` makes."""

    def prepared(self, frames: Frames) -> Frames:
        """Return frames (n, H, W, 3) in the format that training uses."""
        ...

    def train(self, episodes: Sequence[Frames], report: Callable[[int, float], bool] | None = None) -> None:
        """Train on episodes (cameras, moments, S, S, 3).

        ``report`` is called with the number of each step and its loss, and returns whether to continue.
        """
        ...

    def save(self, folder: Path, card: dict[str, Any]) -> None:
        """Write the encoder and a card with facts about it."""
        ...

    def misaligned(self, folder: Path, episode: Frames) -> float:
        """Return the distance in time between moments that a folder's encoder finds similar, relative to chance."""
        ...


@dataclass(frozen=True)
class Play:
    """Episodes of one data set, each (cameras, moments, S, S, 3): for training, and held out."""

    name: str
    cameras: tuple[str, ...]
    training: list[Frames]
    held_out: list[Frames]


def run(config: DictConfig) -> int:
    """Train on play as configured in configs/vision_contrast.yaml, save and report; return the exit code.

    Ctrl-C or SIGTERM ends the training early, and the encoder is saved as it is. A second signal saves nothing.
    """
    settings = typed(PlayConfig, config, "play")
    output = new_output("output", config.output, "folder")
    require(config.threads is None or config.threads >= 1, "threads", "null or 1 or more", config.threads)
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    trainer = cast(Trainer, build(config.trainer, seed=config.seed))
    console = Console(highlight=False)
    rng = generator(config.seed, "held out")
    play = [_read(Path(path), settings, trainer, rng) for path in settings.paths]
    training = [episode for each in play for episode in each.training]
    moments = sum(episode.shape[1] for episode in training)
    pictures = sum(episode.shape[0] * episode.shape[1] for episode in training)
    console.print(f"{len(training):,} episodes, {moments:,} moments, {pictures:,} pictures", soft_wrap=True)
    misalignments: list[float] = []

    def judge(folder: Path) -> dict[str, Any]:
        misalignments.extend(
            float(np.mean([trainer.misaligned(folder, episode) for episode in each.held_out])) for each in play
        )
        facts = [
            {"data": each.name, "cameras": list(each.cameras), "episodes": len(each.held_out), "misalignment": value}
            for each, value in zip(play, misalignments, strict=True)
        ]
        return {"held_out": facts}

    facts = {
        "description": "Image encoder made by robo-rl vision contrast, from recordings of play",
        "episodes": len(training),
        "pictures": pictures,
    }
    ended_by = make_model(
        output, config, facts, lambda report: trainer.train(training, report), trainer.save, judge, console
    )
    table = Table("play", "cameras", "episodes", "misalignment (1: chance)", box=None, pad_edge=False)
    for each, value in zip(play, misalignments, strict=True):
        table.add_row(each.name, " ".join(each.cameras), str(len(each.held_out)), f"{value:.3f}")
    console.print(table)
    console.print(f"encoder: reward.modules.NAME.images.model=local-dir:{output}", markup=False, soft_wrap=True)
    console.print(f"         agent.encoder.checkpoint={output}/model.safetensors", markup=False, soft_wrap=True)
    return 0 if ended_by is None else 128 + ended_by


def _read(path: Path, settings: PlayConfig, trainer: Trainer, rng: np.random.Generator) -> Play:
    """Return the episodes of a data set, some of them held out."""
    with EpisodeStore.open(path) as store:
        names = [key.removeprefix(PREFIX) for key in store.spec.observation if key.startswith(PREFIX)]
        if not names:
            raise ConfigError(
                f"play.paths: {path} has no images; record with cameras, as task.observation.cameras=[front]"
            )
        for name in settings.cameras or ():
            if name not in names:
                raise ConfigError(f"play.cameras: {path} has no {name!r}: {nearest(name, names)}")
        cameras = tuple(names if settings.cameras is None else settings.cameras)
        count = len(store)
        if count < 2:
            raise ConfigError(f"play.paths: {path} must hold at least two episodes, one to hold out, got {count}")
        chosen = set(
            rng.choice(count, max(1, min(count - 1, round(settings.held_out * count))), replace=False).tolist()
        )
        training: list[Frames] = []
        held_out: list[Frames] = []
        for number in range(count):
            arrays = store.arrays(number, [PREFIX + name for name in cameras])
            views = [trainer.prepared(arrays.observation[PREFIX + name][..., -3:]) for name in cameras]
            (held_out if number in chosen else training).append(np.stack(views))
    return Play(path.name, cameras, training, held_out)
