"""Configuration of small models that are made on the spot, and their training."""

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
        embedding: elements of an embedding.
        vision_width: channels of the residual network's stem.
        vision_blocks: residual blocks of each of the four stages.
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
    embedding: int = 64
    vision_width: int = 16
    vision_blocks: tuple[int, ...] = (1, 1, 1, 1)
    text_width: int = 32
    text_layers: int = 2
    context_length: int = 16
    steps: int = 4000
    batch_size: int = 64
    learning_rate: float = 1e-3
    weight_decay: float = 0.02
    shift: int = 2

    def __post_init__(self) -> None:
        object.__setattr__(self, "vision_blocks", tuple(self.vision_blocks))
        for key in ("embedding", "text_layers", "steps"):
            require(getattr(self, key) >= 1, f"trainer.{key}", "1 or more", getattr(self, key))
        require(self.batch_size >= 2, "trainer.batch_size", "2 or more", self.batch_size)
        valid = len(self.vision_blocks) == 4 and min(self.vision_blocks) >= 1
        require(valid, "trainer.vision_blocks", "four numbers of 1 or more", list(self.vision_blocks))
        require(self.context_length >= 3, "trainer.context_length", "3 or more", self.context_length)
        for key in ("vision_width", "text_width"):
            valid = getattr(self, key) >= 16 and getattr(self, key) % 16 == 0
            require(valid, f"trainer.{key}", "a multiple of 16", getattr(self, key))
        valid = self.image_size >= 32 and self.image_size % 32 == 0
        require(valid, "trainer.image_size", "a multiple of 32", self.image_size)
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
                "layers": list(self.vision_blocks),
                "width": self.vision_width,
                "head_width": 32,
            },
            "text_cfg": {
                "context_length": self.context_length,
                "vocab_size": VOCABULARY,
                "width": self.text_width,
                "heads": self.text_width // 16,
                "layers": self.text_layers,
            },
        }


@dataclass(frozen=True)
class ContrastConfig:
    """An image encoder that learns to tell moments apart, and its training.

    Attributes:
        image_size: edge of the square that the encoder sees [pixels].
        channels: of the four stages of a residual network; the last is how many features there are.
        blocks: residual blocks of each stage.
        steps: of AdamW.
        batch_size: moments of each step; each is seen in two views.
        episodes: that these moments are of. What pictures of one episode have in common does not tell these apart.
        margin: moments of an episode that are less than so many control periods apart need not be told apart.
        window: with one camera, the other view of a moment is up to so many control periods away.
        temperature: cosines are divided by it; the smaller, the more the most similar moments count.
        learning_rate: largest; it rises over the first twentieth of the steps and falls by a cosine.
        weight_decay: of AdamW.
        shift: each picture is moved by up to so many pixels.
        jitter: contrast varies by up to this share, light by up to this many standard deviations of colours.
    """

    image_size: int = 64
    channels: tuple[int, ...] = (32, 64, 128, 256)
    blocks: tuple[int, ...] = (1, 1, 1, 1)
    steps: int = 3000
    batch_size: int = 64
    episodes: int = 8
    margin: int = 3
    window: int = 1
    temperature: float = 0.1
    learning_rate: float = 1e-3
    weight_decay: float = 1e-4
    shift: int = 4
    jitter: float = 0.3

    def __post_init__(self) -> None:
        for key in ("channels", "blocks"):
            values = tuple(getattr(self, key))
            object.__setattr__(self, key, values)
            valid = len(values) == 4 and min(values) >= 1
            require(valid, f"trainer.{key}", "four numbers of 1 or more", list(values))
        for key in ("steps", "episodes", "margin"):
            require(getattr(self, key) >= 1, f"trainer.{key}", "1 or more", getattr(self, key))
        require(self.image_size >= 32, "trainer.image_size", "32 or more", self.image_size)
        valid = self.batch_size >= 2 and self.batch_size % self.episodes == 0
        require(valid, "trainer.batch_size", f"a multiple of episodes ({self.episodes}), 2 or more", self.batch_size)
        require(
            0 <= self.window < self.margin, "trainer.window", f"0 or more, below margin ({self.margin})", self.window
        )
        require(self.temperature > 0, "trainer.temperature", "above 0", self.temperature)
        require(0 < self.learning_rate < 1, "trainer.learning_rate", "in (0, 1)", self.learning_rate)
        require(self.weight_decay >= 0, "trainer.weight_decay", "0 or more", self.weight_decay)
        require(0 <= self.shift < self.image_size, "trainer.shift", "0 or more, below image_size", self.shift)
        require(0 <= self.jitter < 1, "trainer.jitter", "in [0, 1)", self.jitter)
