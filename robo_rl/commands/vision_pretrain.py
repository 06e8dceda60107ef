"""robo-rl vision pretrain: a small CLIP model from pictures of simulated tasks."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
import torch
from numpy.typing import NDArray
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from rich.table import Table

from ..app import build
from ..command_line.destination import new_output
from ..command_line.model_making import make_model
from ..core import ConfigError, EnvBackend, derive_seed, nearest, require, typed
from ..evaluation.correlation import ranks
from ..recording.pictures import Pictures, take_pictures
from ..telemetry import Console


@dataclass(frozen=True)
class VisionPretrainConfig:
    """The section ``pictures`` of configs/vision_pretrain.yaml, which documents the options with their defaults."""

    tasks: tuple[str, ...] | None
    steps: int
    times: dict[str, int]
    held_out_steps: int

    def __post_init__(self) -> None:
        for key in ("steps", "held_out_steps"):
            require(getattr(self, key) >= 1, f"pictures.{key}", "1 or more", getattr(self, key))
        for name, times in self.times.items():
            require(times >= 1, f"pictures.times.{name}", "1 or more", times)


class Trainer(Protocol):
    """Object that the configuration group ``trainer`` makes."""

    def train(
        self,
        images: NDArray[np.uint8],
        captions: Sequence[str],
        truth: NDArray[np.bool_],
        report: Callable[[int, float], bool] | None = None,
    ) -> None:
        """Train on pictures (n, H, W, 3); ``truth`` (n, K) states which of K captions is true for each.

        ``report`` is called with the number of each step and its loss, and returns whether to continue.
        """
        ...

    def save(self, folder: Path, card: dict[str, Any]) -> None:
        """Write the model and a card with facts about it."""
        ...

    def similarities(self, folder: Path, images: NDArray[np.uint8], captions: Sequence[str]) -> NDArray[np.float32]:
        """Return the similarities (n, K) of pictures and captions, computed by the model in a folder."""
        ...


def run(config: DictConfig) -> int:
    """Train on pictures as configured in configs/vision_pretrain.yaml, save and report; return the exit code.

    Ctrl-C or SIGTERM ends the training early, and the model is saved as it is. A second signal saves nothing.
    """
    settings = typed(VisionPretrainConfig, config, "pictures")
    output = new_output("output", config.output, "folder")
    require(config.threads is None or config.threads >= 1, "threads", "null or 1 or more", config.threads)
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    trainer = cast(Trainer, build(config.trainer, seed=config.seed))
    console = Console(highlight=False)
    pictures, held_out = _pictures(config, settings)
    console.print(f"{len(pictures.images):,} pictures, {len(pictures.captions)} captions", soft_wrap=True)
    areas: dict[str, float | None] = {}

    def judge(folder: Path) -> dict[str, Any]:
        areas.update(_areas(trainer.similarities(folder, held_out.images, held_out.captions), held_out))
        return {"held_out_pictures": len(held_out.images), "held_out_area_under_curve": areas}

    ended_by = make_model(
        output,
        config,
        {
            "description": "CLIP model made by robo-rl vision pretrain, from pictures of simulated tasks",
            "pictures": len(pictures.images),
            "captions": list(pictures.captions),
        },
        lambda report: trainer.train(pictures.images, pictures.captions, pictures.truth, report),
        trainer.save,
        judge,
        console,
    )
    table = Table("caption", "true of", "area under curve", box=None, pad_edge=False)
    for caption, share in zip(pictures.captions, pictures.truth.mean(0), strict=True):
        area = areas[caption]
        table.add_row(caption, f"{share:.1%}", "none" if area is None else f"{area:.2f}")
    console.print(table)
    console.print(f"model: reward.modules.clip.model=local-dir:{output}", markup=False, soft_wrap=True)
    return 0 if ended_by is None else 128 + ended_by


def _pictures(config: DictConfig, settings: VisionPretrainConfig) -> tuple[Pictures, Pictures]:
    """Return the pictures for training, and those that are held out."""
    with ExitStack() as stack:
        backends: dict[str, EnvBackend] = {}
        for name in config.tasks if settings.tasks is None else settings.tasks:
            if name not in config.tasks:
                raise ConfigError(f"pictures.tasks: there is no task {name!r}: {nearest(name, map(str, config.tasks))}")
            try:
                node = OmegaConf.merge(config.tasks[name], config.view)
            except OmegaConfBaseException as error:
                raise ConfigError(f"tasks.{name}: view does not match ({str(error).partition(chr(10))[0]})") from error
            backends[str(name)] = backend = build(cast(DictConfig, node))
            stack.callback(backend.close)
        require(bool(backends), "pictures.tasks", "null or at least one task", [])
        for name in settings.times:
            if name not in config.tasks:
                raise ConfigError(f"pictures.times: there is no task {name!r}: {nearest(name, map(str, config.tasks))}")
        longer = {name: settings.steps * settings.times.get(name, 1) for name in backends}
        training = take_pictures(backends, longer, derive_seed(config.seed, "training"))
        held_out_steps = dict.fromkeys(backends, settings.held_out_steps)
        held_out = take_pictures(backends, held_out_steps, derive_seed(config.seed, "held out"))
    return training, held_out


def _areas(similarities: NDArray[np.float32], pictures: Pictures) -> dict[str, float | None]:
    """Return for each caption how well it identifies its pictures among those of the tasks that it belongs to."""
    return {
        caption: area_under_curve(similarities[own, column], pictures.truth[own, column])
        for column, (caption, own) in enumerate(zip(pictures.captions, pictures.own.T, strict=True))
    }


def area_under_curve(scores: NDArray[np.float32], labels: NDArray[np.bool_]) -> float | None:
    """Return the chance that a score labelled True exceeds one labelled False (ties: half), or None."""
    positives = int(labels.sum())
    if positives in (0, len(labels)):
        return None
    above = ranks(scores)[labels].sum() - positives * (positives - 1) / 2
    return float(above / (positives * (len(labels) - positives)))
