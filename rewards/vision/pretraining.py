"""Training of a small CLIP model: residual network and text transformer of open_clip (Radford et al. 2021)."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from robo_rl.core import DataError, derive_seed, generator

from .config import VOCABULARY, PretrainingConfig
from .encoder import ClipEncoder, Preprocessing
from .encoder_config import EncoderConfig
from .files import CONFIG_NAME, WEIGHTS_NAME, write_model
from .images import moved
from .libraries import open_clip
from .schedule import optimise

MEAN, DEVIATION = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
"""Mean and deviation of colours in [0, 1], the same for all CLIP models."""


class ClipTrainer:
    """Trainer of a model on pictures, for each of which every caption is known to be true or false.

    The loss is that of SigLIP (Zhai et al. 2023), a logistic regression for each pair of picture and caption. Its label
    is the truth of the caption for the picture, rather than whether the two were drawn together: many captions from a
    simulator are true for a picture at the same time, and they differ in the states in which they are false.
    """

    def __init__(self, config: PretrainingConfig, seed: int) -> None:
        self._config = config
        self._seed = seed
        open_clip()
        from open_clip.model import CLIP

        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derive_seed(seed, "weights") % 2**63)
            self._model: Any = CLIP(**config.architecture())
        from open_clip.tokenizer import SimpleTokenizer

        self._tokenizer: Any = SimpleTokenizer(context_length=config.context_length)
        self._preprocess = Preprocessing(self._preprocessing())

    def train(
        self,
        images: NDArray[np.uint8],
        captions: Sequence[str],
        truth: NDArray[np.bool_],
        report: Callable[[int, float], bool] | None = None,
    ) -> None:
        """Train the model.

        Args:
            images: (n, H, W, 3).
            captions: K sentences.
            truth: (n, K), whether each caption is true for each picture.
            report: called with the number of each step and its loss; returns whether to continue.

        Raises:
            DataError: if a caption is too long, or all captions are true, or all are false.
        """
        config = self._config
        if not truth.any() or truth.all():
            raise DataError("the captions are all true or all false of the pictures: there is nothing to learn")
        tokens = self._tokens(captions)
        labels = torch.from_numpy(truth)
        rng = generator(self._seed, "minibatches")

        def loss() -> Tensor:
            rows = rng.integers(0, len(images), config.batch_size)
            shift = rng.integers(-config.shift, config.shift + 1, 2)
            pictures = torch.from_numpy(moved(images[rows], *shift.tolist()))
            return self._loss(pictures, tokens, labels[torch.from_numpy(rows)])

        optimise(self._model, config, loss, report)
        self._forget_unseen(tokens)

    def _tokens(self, captions: Sequence[str]) -> Tensor:
        tokens: Tensor = self._tokenizer(list(captions))
        too_long = [
            caption for caption in captions if len(self._tokenizer.encode(caption)) > self._config.context_length - 2
        ]
        if too_long:
            raise DataError(f"trainer.context_length={self._config.context_length} is too short for {too_long[0]!r}")
        return tokens

    def _loss(self, pictures: Tensor, tokens: Tensor, labels: Tensor) -> Tensor:
        """Return the logistic loss, averaged over pictures and captions."""
        images = self._model.encode_image(self._preprocess(pictures), normalize=True)
        texts = self._model.encode_text(tokens, normalize=True)
        logits = self._model.logit_scale.exp() * images @ texts.T + self._model.logit_bias
        return torch.nn.functional.binary_cross_entropy_with_logits(logits, labels.float())

    @torch.no_grad()
    def _forget_unseen(self, tokens: Tensor) -> None:
        """Set the embeddings of tokens that occur in no caption to zero, so that unknown words do not add noise."""
        occurs = torch.zeros(VOCABULARY, 1, dtype=torch.bool)
        occurs[tokens.flatten()] = True
        self._model.token_embedding.weight.mul_(occurs)

    def _preprocessing(self) -> dict[str, Any]:
        return {
            "size": self._config.image_size,
            "mean": MEAN,
            "std": DEVIATION,
            "interpolation": "bicubic",
            "resize_mode": "squash",
            "fill_color": 0,
        }

    def save(self, folder: Path, card: Mapping[str, Any]) -> None:
        """Write the model in open_clip's format, float16, and its data card.

        Args:
            folder: created if it is missing.
            card: facts about the model, as JSON values.

        Raises:
            OSError: if a file cannot be written.
        """
        preprocessing = {key: self._preprocessing()[key] for key in ("mean", "std", "interpolation", "resize_mode")}
        config = {"model_cfg": self._config.architecture(), "preprocess_cfg": preprocessing}
        write_model(folder, self._model, WEIGHTS_NAME, CONFIG_NAME, config, card)

    def similarities(self, folder: Path, images: NDArray[np.uint8], captions: Sequence[str]) -> NDArray[np.float32]:
        """Return the cosines (n, K) between pictures (n, H, W, 3) and captions, by a saved model."""
        encoder = ClipEncoder(EncoderConfig(model=f"local-dir:{folder}", cache_frames=0))
        cosines: NDArray[np.float32] = encoder.encode(images) @ encoder.texts(captions).T
        return cosines


def make_trainer(seed: int, **values: Any) -> ClipTrainer:
    """Return a trainer; ``values`` are the fields of :class:`PretrainingConfig`."""
    return ClipTrainer(PretrainingConfig(**values), seed)
