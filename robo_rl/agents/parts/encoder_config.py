"""Configuration of the encoder of images."""

from dataclasses import dataclass

from robo_rl.core import Options, option, require

from .choices import require_choice

HEADS = ("dense", "spatial_embeddings")
STAGES = 4


@dataclass(frozen=True)
class EncoderConfig(Options, section="agent.encoder"):
    """Options of the encoder that makes a vector of a camera's image. Every camera has an encoder of its own.

    Attributes:
        channels: of the convolutions, 3x3 with stride 2; not used with a checkpoint.
        checkpoint: safetensors file of a ResNet-10, -18 or -34, which takes the place of the convolutions; null: none.
        stages: how many of its four stages are used; each after the first halves the map and doubles the channels.
        frozen: whether the checkpoint's network stays as it is (and is one for all cameras).
        cached_views: randomly shifted views of each image for which the replay keeps what the frozen network makes of
            them (in half precision), computed once; 0: they are computed again at every update.
        head: what makes a vector of the last map: ``dense`` (of all its elements), or ``spatial_embeddings``
            (weighted sums over places, learned for each channel, as in SERL; then dense).
        embeddings: weighted sums of each channel for ``head=spatial_embeddings``.
        latent: width of the vector of each camera, after LayerNorm and tanh.
    """

    channels: tuple[int, ...] = (16, 32, 64, 64)
    checkpoint: str | None = None
    stages: int = option(4, low=1, high=STAGES)
    frozen: bool = True
    cached_views: int = option(0, low=0)
    head: str = "dense"
    embeddings: int = option(8, low=1)
    latent: int = option(64, low=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "channels", tuple(self.channels))
        require(
            len(self.channels) >= 1 and all(width >= 1 for width in self.channels),
            "agent.encoder.channels",
            "one or more numbers of 1 or more",
            list(self.channels),
        )
        require(
            self.cached_views == 0 or (self.checkpoint is not None and self.frozen),
            "agent.encoder.cached_views",
            "0 unless there is a checkpoint and it is frozen",
            self.cached_views,
        )
        require_choice("agent.encoder.head", self.head, HEADS)
