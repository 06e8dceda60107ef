"""Configuration of a small CLIP model and its training."""

import math
from dataclasses import dataclass
from typing import Any

from robo_rl.core import require

VOCABULARY = 49408
"""Tokens of open_clip's own tokenizer."""


@dataclass(frozen=True)
class PretrainingConfig:
    """The model and its training.

    Attributes:
        image_size: edge of the square that the model sees [pixels].
        patch_size: edge of the image transformer's patches [pixels].
        embedding: elements of an embedding.
        vision_width: of the image transformer.
        vision_layers: of the image transformer.
        text_width: of the text transformer. Each costs 49408 weights.
        text_layers: of the text transformer.
        context_length: most tokens of a text, its beginning and end included.
        steps: of AdamW.
        batch_size: pictures of each; each is compared with all captions.
        learning_rate: largest; it rises over the first twentieth of the steps and falls by a cosine.
        weight_decay: of AdamW.
        shift: each batch of pictures is moved by up to so many pixels.
    """

    image_size: int = 64
    patch_size: int = 16
    embedding: int = 64
    vision_width: int = 128
    vision_layers: int = 4
    text_width: int = 32
    text_layers: int = 2
    context_length: int = 16
    steps: int = 1400
    batch_size: int = 64
    learning_rate: float = 1e-3
    weight_decay: float = 0.02
    shift: int = 2

    def __post_init__(self) -> None:
        for key in ("embedding", "vision_layers", "text_layers", "steps", "batch_size", "patch_size"):
            require(getattr(self, key) >= 1, f"trainer.{key}", "1 or more", getattr(self, key))
        require(self.context_length >= 3, "trainer.context_length", "3 or more", self.context_length)
        for key in ("vision_width", "text_width"):
            valid = getattr(self, key) >= 16 and getattr(self, key) % 16 == 0
            require(valid, f"trainer.{key}", "a multiple of 16", getattr(self, key))
        valid = self.image_size >= self.patch_size and self.image_size % self.patch_size == 0
        require(valid, "trainer.image_size", f"a multiple of patch_size ({self.patch_size})", self.image_size)
        require(0 < self.learning_rate < 1, "trainer.learning_rate", "in (0, 1)", self.learning_rate)
        require(self.weight_decay >= 0, "trainer.weight_decay", "0 or more", self.weight_decay)
        require(0 <= self.shift < self.image_size, "trainer.shift", "0 or more, below image_size", self.shift)

    def architecture(self) -> dict[str, Any]:
        """Return the ``model_cfg`` of open_clip."""
        return {
            "embed_dim": self.embedding,
            "init_logit_scale": math.log(10.0),  # as for SigLIP
            "init_logit_bias": -2.0,  # log odds of a caption that is as often true as ours are
            "vision_cfg": {
                "image_size": self.image_size,
                "patch_size": self.patch_size,
                "width": self.vision_width,
                "layers": self.vision_layers,
                "head_width": 16 if self.vision_width % 32 else 32,
            },
            "text_cfg": {
                "context_length": self.context_length,
                "vocab_size": VOCABULARY,
                "width": self.text_width,
                "heads": self.text_width // 16,
                "layers": self.text_layers,
            },
        }
