"""A small image encoder, made on the spot: it learns to tell moments apart (time-contrastive, Sermanet et al. 2018)."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from robo_rl.core import DataError, derive_seed, generator

from .config import ContrastConfig
from .encoder import EncoderConfig, Preprocessing, TimmEncoder
from .files import TIMM_CONFIG_NAME, TIMM_WEIGHTS_NAME, write_model
from .images import each_moved
from .libraries import timm
from .schedule import schedule

ARCHITECTURE = "resnet18"
"""Of timm; blocks and channels are given, so it need not have 18 layers."""

MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Of the colours of ImageNet, in [0, 1], as encoders of agents expect them of a residual network."""

Frames = NDArray[np.uint8]
Vectors = NDArray[np.float32]


class TimeContrastiveTrainer:
    """Trains an encoder without labels: what happens at one moment is alike, what happens at others is not.

    Of each moment of a minibatch there are two views: from two cameras, where there are, else from one camera a little
    apart in time. The loss is InfoNCE (van den Oord et al. 2018) over the cosines of features, from either side: the
    other view is to be found among those of all moments. Moments of an episode that are nearly the same are not told
    apart. What all pictures of an episode have in common is of little help, since several are of the same.

    Args:
        config: of encoder and training.
        seed: of initial weights and minibatches.
    """

    def __init__(self, config: ContrastConfig, seed: int) -> None:
        self._config = config
        self._seed = seed
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derive_seed(seed, "weights") % 2**63)
            model = timm().create_model(ARCHITECTURE, num_classes=0, **self._arguments())
        # A third less time on a processor.
        self._model: Any = model.to(memory_format=torch.channels_last)
        self._preprocess = Preprocessing(
            {
                "size": config.image_size,
                "mean": MEAN,
                "std": DEVIATION,
                "interpolation": "bicubic",
                "resize_mode": "squash",
                "fill_color": 0,
            }
        )

    def prepared(self, frames: Frames) -> Frames:
        """Return frames (n, H, W, 3) at the size (n, S, S, 3) at which they are trained on."""
        resized: Frames = self._preprocess.resized(torch.from_numpy(frames).permute(0, 3, 1, 2)).numpy()
        return np.ascontiguousarray(resized.transpose(0, 2, 3, 1))

    def train(self, episodes: Sequence[Frames], report: Callable[[int, float], bool] | None = None) -> None:
        """Train.

        Args:
            episodes: each (cameras, moments, S, S, 3), of :meth:`prepared` frames.
            report: called with the number of each step and its loss; returns whether to go on.

        Raises:
            DataError: if all episodes are too short for two moments that are to be told apart.
        """
        config, model = self._config, self._model
        if all(episode.shape[1] <= config.margin for episode in episodes):
            raise DataError(
                f"no episode has more than trainer.margin={config.margin} moments: there is nothing to tell"
            )
        optimiser = torch.optim.AdamW(model.parameters(), config.learning_rate, weight_decay=config.weight_decay)
        model.train()
        rng = generator(self._seed, "minibatches")
        for step in range(config.steps):
            for group in optimiser.param_groups:
                group["lr"] = config.learning_rate * schedule(step, config.steps)
            views, numbers, moments = self._drawn(episodes, rng)
            first, second = functional.normalize(model(self._varied(views, rng))).chunk(2)
            loss = contrastive_loss(first, second, numbers, moments, config.margin, config.temperature)
            optimiser.zero_grad()
            torch.autograd.backward(loss)
            optimiser.step()
            if report is not None and not report(step, float(loss.detach())):
                break
        model.eval()

    def _drawn(self, episodes: Sequence[Frames], rng: np.random.Generator) -> tuple[Frames, Tensor, Tensor]:
        """Return two views (2 * B, S, S, 3) of B moments, the first of all before the second, and which they are.

        The moments are numbered within their episodes; the numbers (B,) of episodes and of moments are returned.
        """
        config = self._config
        each = config.batch_size // config.episodes
        first, second, numbers, moments = [], [], [], []
        for number in rng.integers(0, len(episodes), config.episodes):
            cameras, length = episodes[number].shape[:2]
            chosen = others = rng.integers(0, length, each)
            # In order: among pictures of several cameras a moment would be taken for what the same camera saw.
            eye, other_eye = np.sort(rng.permutation(cameras)[:2]) if cameras > 1 else (0, 0)
            if cameras == 1:
                others = (chosen + rng.integers(-config.window, config.window + 1, each)).clip(0, length - 1)
            first.append(episodes[number][eye, chosen])
            second.append(episodes[number][other_eye, others])
            numbers += [number] * each
            moments += chosen.tolist()
        return np.concatenate(first + second), torch.tensor(numbers), torch.tensor(moments)

    def _varied(self, views: Frames, rng: np.random.Generator) -> Tensor:
        """Return pictures (n, 3, S, S) of views, each moved, and lighter or darker, with more or less contrast."""
        config = self._config
        moves = rng.integers(-config.shift, config.shift + 1, (len(views), 2))
        pictures = self._preprocess(torch.from_numpy(each_moved(views, moves)))
        contrast, light = torch.from_numpy(rng.uniform(-config.jitter, config.jitter, (2, len(views), 1, 1, 1))).float()
        varied: Tensor = pictures * (1 + contrast) + light
        return varied.contiguous(memory_format=torch.channels_last)

    def _arguments(self) -> dict[str, Any]:
        return {"layers": list(self._config.blocks), "channels": list(self._config.channels)}

    def save(self, folder: Path, card: Mapping[str, Any]) -> None:
        """Write the encoder in timm's format, float16, and its data card.

        Args:
            folder: is made where it is not there.
            card: facts about the encoder, as JSON values.

        Raises:
            OSError: if it cannot be written.
        """
        size = self._config.image_size
        looks = {"mean": MEAN, "std": DEVIATION, "interpolation": "bicubic", "crop_pct": 1.0, "crop_mode": "squash"}
        config = {
            "architecture": ARCHITECTURE,
            "num_classes": 0,
            "num_features": self._model.num_features,
            "model_args": self._arguments(),
            "pretrained_cfg": {"input_size": (3, size, size), "num_classes": 0, **looks},
        }
        write_model(folder, self._model, TIMM_WEIGHTS_NAME, TIMM_CONFIG_NAME, config, card)

    def misaligned(self, folder: Path, episode: Frames) -> float:
        """Return :func:`misalignment` of an episode (cameras, moments, S, S, 3), by an encoder that was saved."""
        encoder = TimmEncoder(EncoderConfig(model=f"local-dir:{folder}", cache_frames=0))
        return misalignment(np.stack([encoder.encode(frames) for frames in episode]))


def contrastive_loss(
    first: Tensor, second: Tensor, episodes: Tensor, moments: Tensor, margin: int, temperature: float
) -> Tensor:
    """Return the mean of InfoNCE from either side.

    Args:
        first: (B, E) of unit length, one view of each of B moments.
        second: (B, E), the other view.
        episodes: (B,) of which the moments are.
        moments: (B,) within their episodes.
        margin: others of the same episode that are less than so far away are left out.
        temperature: cosines are divided by it.
    """
    near = (episodes[:, None] == episodes) & ((moments[:, None] - moments).abs() < margin)
    near.fill_diagonal_(False)
    logits = (first @ second.T / temperature).masked_fill(near, -torch.inf)
    right = torch.arange(len(first), device=first.device)
    return (functional.cross_entropy(logits, right) + functional.cross_entropy(logits.T, right)) / 2


def misalignment(features: Vectors) -> float:
    """Return how far in time the most similar moments of an episode are, as a share of what chance would give.

    Sermanet et al. 2018 call it alignment error. For each moment, seen by each camera, the moment is sought whose
    features, by each other camera, have the largest cosine; with one camera among all moments but itself.

    Args:
        features: (cameras, moments, E).

    Returns:
        0 if they are always the same moment, 1 if any moment would do as well. With one camera the best is two divided
        by the number of moments or so.
    """
    cameras, length = features.shape[:2]
    unit = features / np.maximum(np.linalg.norm(features, axis=-1, keepdims=True), np.finfo(np.float32).tiny)
    times = np.arange(length)
    apart, by_chance = [], np.abs(times[:, None] - times).mean()
    for one in range(cameras):
        for other in range(cameras):
            if one == other and cameras > 1:
                continue
            cosines = unit[one] @ unit[other].T
            if one == other:
                np.fill_diagonal(cosines, -np.inf)
            apart.append(np.abs(cosines.argmax(1) - times).mean())
    return float(np.mean(apart) / max(by_chance, np.finfo(float).tiny))


def make_contrastive_trainer(seed: int, **values: Any) -> TimeContrastiveTrainer:
    """Return a trainer; ``values`` are the fields of :class:`ContrastConfig`."""
    return TimeContrastiveTrainer(ContrastConfig(**values), seed)
