"""Training of a small image encoder to distinguish moments (time-contrastive, Sermanet et al. 2018)."""

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
from .encoder import Preprocessing, TimmEncoder
from .encoder_config import EncoderConfig
from .files import TIMM_CONFIG_NAME, TIMM_WEIGHTS_NAME, write_model
from .images import each_moved
from .libraries import timm
from .schedule import optimise

ARCHITECTURE = "resnet18"
"""Architecture of timm; blocks and channels are configured, so the number of layers may differ from 18."""

MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Mean and deviation of ImageNet's colours in [0, 1], which the encoders of agents expect of a residual network."""

Frames = NDArray[np.uint8]
Vectors = NDArray[np.float32]


class TimeContrastiveTrainer:
    """Trainer of an encoder without labels: views of one moment are similar, views of different moments are not.

    Each moment of a minibatch has two views: from two cameras if there are several, else from one camera at slightly
    different times. The loss is InfoNCE (van den Oord et al. 2018) over the cosines of features, in both directions: it
    identifies the other view of a moment among the views of all moments. Moments of an episode that are nearly the same
    are not contrasted. Common properties of all pictures of an episode help little, because a minibatch contains
    several moments of the same episode.
    """

    def __init__(self, config: ContrastConfig, seed: int) -> None:
        self._config = config
        self._seed = seed
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derive_seed(seed, "weights") % 2**63)
            model = timm().create_model(ARCHITECTURE, num_classes=0, **self._arguments())
        # This memory format reduces the time on a CPU by a third.
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
        """Return frames (n, H, W, 3) resized for training (n, S, S, 3)."""
        resized: Frames = self._preprocess.resized(torch.from_numpy(frames).permute(0, 3, 1, 2)).numpy()
        return np.ascontiguousarray(resized.transpose(0, 2, 3, 1))

    def train(self, episodes: Sequence[Frames], report: Callable[[int, float], bool] | None = None) -> None:
        """Train the encoder.

        Args:
            episodes: :meth:`prepared` frames (cameras, moments, S, S, 3) of each episode.
            report: called with the number of each step and its loss; returns whether to continue.

        Raises:
            DataError: if all episodes are too short to contain two moments that can be contrasted.
        """
        config, model = self._config, self._model
        if all(episode.shape[1] <= config.margin for episode in episodes):
            raise DataError(
                f"no episode has more than trainer.margin={config.margin} moments: there is nothing to distinguish"
            )
        rng = generator(self._seed, "minibatches")

        def loss() -> Tensor:
            views, numbers, moments = self._drawn(episodes, rng)
            first, second = functional.normalize(model(self._varied(views, rng))).chunk(2)
            return contrastive_loss(first, second, numbers, moments, config.margin, config.temperature)

        optimise(model, config, loss, report)

    def _drawn(self, episodes: Sequence[Frames], rng: np.random.Generator) -> tuple[Frames, Tensor, Tensor]:
        """Return two views of B moments, and the numbers (B,) of their episodes and of the moments within these.

        The views (2 * B, S, S, 3) contain the first view of all moments, followed by the second view of all.
        """
        config = self._config
        count = config.batch_size // config.episodes
        first, second, numbers, moments = [], [], [], []
        for number in rng.integers(0, len(episodes), config.episodes):
            cameras, length = episodes[number].shape[:2]
            chosen = other_moments = rng.integers(0, length, count)
            # The cameras are sorted: if both sides contained mixed cameras, the camera would help to distinguish
            # moments.
            camera, other_camera = np.sort(rng.permutation(cameras)[:2]) if cameras > 1 else (0, 0)
            if cameras == 1:
                other_moments = (chosen + rng.integers(-config.window, config.window + 1, count)).clip(0, length - 1)
            first.append(episodes[number][camera, chosen])
            second.append(episodes[number][other_camera, other_moments])
            numbers += [number] * count
            moments += chosen.tolist()
        return np.concatenate(first + second), torch.tensor(numbers), torch.tensor(moments)

    def _varied(self, views: Frames, rng: np.random.Generator) -> Tensor:
        """Return pictures (n, 3, S, S) of views, each with a random move, brightness and contrast."""
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
            folder: created if it is missing.
            card: facts about the encoder, as JSON values.

        Raises:
            OSError: if a file cannot be written.
        """
        size = self._config.image_size
        preprocessing = {
            "mean": MEAN,
            "std": DEVIATION,
            "interpolation": "bicubic",
            "crop_pct": 1.0,
            "crop_mode": "squash",
        }
        config = {
            "architecture": ARCHITECTURE,
            "num_classes": 0,
            "num_features": self._model.num_features,
            "model_args": self._arguments(),
            "pretrained_cfg": {"input_size": (3, size, size), "num_classes": 0, **preprocessing},
        }
        write_model(folder, self._model, TIMM_WEIGHTS_NAME, TIMM_CONFIG_NAME, config, card)

    def misaligned(self, folder: Path, episode: Frames) -> float:
        """Return the :func:`misalignment` of an episode (cameras, moments, S, S, 3) by a saved encoder."""
        encoder = TimmEncoder(EncoderConfig(model=f"local-dir:{folder}", cache_frames=0))
        return misalignment(np.stack([encoder.encode(frames) for frames in episode]))


def contrastive_loss(
    first: Tensor, second: Tensor, episodes: Tensor, moments: Tensor, margin: int, temperature: float
) -> Tensor:
    """Return the mean of InfoNCE in both directions.

    Args:
        first: (B, E) of unit length, one view of each of B moments.
        second: (B, E), the other view.
        episodes: (B,), numbers of the episodes of the moments.
        moments: (B,), numbers of the moments within their episodes.
        margin: other moments of the same episode at a smaller distance than this are left out.
        temperature: divisor of the cosines.
    """
    near = (episodes[:, None] == episodes) & ((moments[:, None] - moments).abs() < margin)
    near.fill_diagonal_(False)
    logits = (first @ second.T / temperature).masked_fill(near, -torch.inf)
    targets = torch.arange(len(first), device=first.device)
    return (functional.cross_entropy(logits, targets) + functional.cross_entropy(logits.T, targets)) / 2


def misalignment(features: Vectors) -> float:
    """Return the mean distance in time between the most similar moments of an episode, relative to chance.

    Sermanet et al. 2018 call it alignment error. For each moment in the view of each camera, the most similar moment is
    the one with the largest cosine of features in the view of each other camera. With one camera it is the most similar
    other moment.

    Args:
        features: (cameras, moments, E).

    Returns:
        0 if the most similar moment is always the same one, 1 if it is as far away as a random one. With one camera the
        smallest possible value is about two divided by the number of moments.
    """
    cameras, length = features.shape[:2]
    unit = features / np.maximum(np.linalg.norm(features, axis=-1, keepdims=True), np.finfo(np.float32).tiny)
    times = np.arange(length)
    distances, by_chance = [], np.abs(times[:, None] - times).mean()
    for camera in range(cameras):
        for other_camera in range(cameras):
            if camera == other_camera and cameras > 1:
                continue
            cosines = unit[camera] @ unit[other_camera].T
            if camera == other_camera:
                np.fill_diagonal(cosines, -np.inf)
            distances.append(np.abs(cosines.argmax(1) - times).mean())
    return float(np.mean(distances) / max(by_chance, np.finfo(float).tiny))


def make_contrastive_trainer(seed: int, **values: Any) -> TimeContrastiveTrainer:
    """Return a trainer; ``values`` are the fields of :class:`ContrastConfig`."""
    return TimeContrastiveTrainer(ContrastConfig(**values), seed)
