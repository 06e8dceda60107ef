"""Options of reward modules whose input is one vector."""

from dataclasses import dataclass, field

from robo_rl.core import Options, as_config, option, require

from ..vision.encoder_config import ImagesConfig


@dataclass(frozen=True)
class VectorConfig(Options):
    """Options of modules that process an observation as one vector.

    Attributes:
        keys: observation keys to use; null: all keys that are not images.
        images: processing of the images among them.
    """

    keys: tuple[str, ...] | None = None
    images: ImagesConfig = field(default_factory=ImagesConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "images", as_config(self.images, ImagesConfig))


@dataclass(frozen=True)
class NetworkConfig(VectorConfig):
    """Options of modules that train a network on such vectors.

    Attributes (besides those of :class:`VectorConfig`):
        hidden: widths of the hidden layers.
        learning_rate: learning rate of Adam.
    """

    hidden: tuple[int, ...] = (64, 64)
    learning_rate: float = option(1e-3, above=0, below=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "hidden", tuple(self.hidden))
        require(all(width >= 1 for width in self.hidden), "hidden", "widths of 1 or more", list(self.hidden))
