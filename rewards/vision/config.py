"""Configuration of small image models and their training."""

import math
from dataclasses import dataclass
from typing import Any

from robo_rl.core import Options, option, require

VOCABULARY = 49408
"""Number of tokens of open_clip's own tokenizer."""


@dataclass(frozen=True)
class PretrainingConfig(Options, section="trainer"):
    """Options of a CLIP model and its training.

    Attributes:
        image_size: edge of the model's square input images [pixels].
        embedding: number of elements of an embedding.
        vision_width: channels of the residual network's stem.
        vision_blocks: number of residual blocks in each of the four stages.
        text_width: width of the text transformer. Each unit of width costs 49408 weights.
        text_layers: number of layers of the text transformer.
        context_length: largest number of tokens of a text, including its beginning and end.
        steps: number of steps of AdamW.
        batch_size: number of images in each step; each is compared with all captions.
        learning_rate: largest learning rate; it rises over the first twentieth of the steps and falls by a cosine.
        weight_decay: weight decay of AdamW.
        shift: largest shift of each batch of images [pixels].
    """

    image_size: int = 64
    embedding: int = option(64, low=1)
    vision_width: int = 16
    vision_blocks: tuple[int, ...] = (1, 1, 1, 1)
    text_width: int = 32
    text_layers: int = option(2, low=1)
    context_length: int = option(16, low=3)
    steps: int = option(4000, low=1)
    batch_size: int = option(64, low=2)
    learning_rate: float = option(1e-3, above=0, below=1)
    weight_decay: float = option(0.02, low=0)
    shift: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "vision_blocks", tuple(self.vision_blocks))
        valid = len(self.vision_blocks) == 4 and min(self.vision_blocks) >= 1
        require(valid, "trainer.vision_blocks", "four numbers of 1 or more", list(self.vision_blocks))
        for key in ("vision_width", "text_width"):
            valid = getattr(self, key) >= 16 and getattr(self, key) % 16 == 0
            require(valid, f"trainer.{key}", "a multiple of 16", getattr(self, key))
        valid = self.image_size >= 32 and self.image_size % 32 == 0
        require(valid, "trainer.image_size", "a multiple of 32", self.image_size)
        require(0 <= self.shift < self.image_size, "trainer.shift", "0 or more, below image_size", self.shift)

    def architecture(self) -> dict[str, Any]:
        """Return the ``model_cfg`` for open_clip."""
        return {
            "embed_dim": self.embedding,
            "init_logit_scale": math.log(10.0),  # as for SigLIP
            "init_logit_bias": -2.0,  # log odds of a caption that is true about as often as the training captions
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
class ContrastConfig(Options, section="trainer"):
    """Image encoder that learns to distinguish moments, and its training.

    Attributes:
        image_size: edge of the encoder's square input images [pixels].
        channels: channels of the four stages of a residual network; the last number is that of the features.
        blocks: number of residual blocks in each stage.
        steps: number of steps of AdamW.
        batch_size: number of moments in each step, each in two views.
        episodes: number of episodes of these moments. Common properties of an episode's images do not distinguish its
            moments.
        margin: number of control periods; moments of an episode that are closer than this need not be distinguished.
        window: with one camera, the largest distance of the other view of a moment, in control periods.
        temperature: number by which cosines are divided; the smaller it is, the more the most similar moments count.
        learning_rate: largest learning rate; it rises over the first twentieth of the steps and falls by a cosine.
        weight_decay: weight decay of AdamW.
        shift: largest shift of each image [pixels].
        jitter: largest relative change of contrast, and largest change of brightness, in standard deviations of
            colours.
    """

    image_size: int = option(64, low=32)
    channels: tuple[int, ...] = (32, 64, 128, 256)
    blocks: tuple[int, ...] = (1, 1, 1, 1)
    steps: int = option(3000, low=1)
    batch_size: int = 64
    episodes: int = option(8, low=1)
    margin: int = option(3, low=1)
    window: int = 1
    temperature: float = option(0.1, above=0)
    learning_rate: float = option(1e-3, above=0, below=1)
    weight_decay: float = option(1e-4, low=0)
    shift: int = 4
    jitter: float = option(0.3, low=0, below=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        for key in ("channels", "blocks"):
            values = tuple(getattr(self, key))
            object.__setattr__(self, key, values)
            valid = len(values) == 4 and min(values) >= 1
            require(valid, f"trainer.{key}", "four numbers of 1 or more", list(values))
        valid = self.batch_size >= 2 and self.batch_size % self.episodes == 0
        require(valid, "trainer.batch_size", f"a multiple of episodes ({self.episodes}), 2 or more", self.batch_size)
        require(
            0 <= self.window < self.margin, "trainer.window", f"0 or more, below margin ({self.margin})", self.window
        )
        require(0 <= self.shift < self.image_size, "trainer.shift", "0 or more, below image_size", self.shift)
