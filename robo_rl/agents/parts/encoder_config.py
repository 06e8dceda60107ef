"""Configuration of the encoder of images."""

from dataclasses import dataclass

from robo_rl.core import Options, option, require

from .choices import require_choice

HEADS = ("dense", "spatial_embeddings")
STAGES = 4


@dataclass(frozen=True)
class EncoderConfig(Options, section="agent.encoder"):
    """Options of the encoder that maps an image to a vector. Each camera has its own encoder.

    Attributes:
        channels: channels of the convolutions, 3x3 with stride 2; not used with a checkpoint.
        checkpoint: safetensors file of a ResNet-10, -18 or -34 that replaces the convolutions; null: none.
        stages: number of stages of the ResNet that are used, of four; each after the first halves the feature map and
            doubles the channels.
        frozen: whether the checkpoint's network is not trained; it is then shared by all cameras.
        cached_views: number of randomly shifted views of each image whose features from the frozen network are computed
            once and kept in the replay (in half precision); 0: they are computed at every update.
        head: layers that map the last feature map to a vector: ``dense`` (on all its elements), or
            ``spatial_embeddings`` (weighted sums over positions, learned for each channel, as in SERL; then dense).
        embeddings: number of weighted sums per channel for ``head=spatial_embeddings``.
        latent: width of each camera's vector, after LayerNorm and tanh.
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
