"""Configuration of image encoders, and of the representation of images in reward modules."""

from dataclasses import dataclass, fields

from robo_rl.core import Options, option, require

COLOURS = "colours"
CONVOLUTIONAL = "convolutional"


@dataclass(frozen=True)
class EncoderConfig(Options):
    """Model that encodes images, and how it is run.

    Attributes:
        model: ``tabletop``, a small CLIP model, or ``play``, a small encoder without texts; both are part of this
            package. ``local-dir:<folder>`` or ``hf-hub:<owner>/<name>`` with a model in the format of open_clip or
            timm; an architecture of open_clip, such as ``ViT-bigG-14``, or of timm, such as ``timm:resnet18``; or a
            class of PyTorch modules, such as ``torch:my_package.MyEncoder`` (see :class:`TorchEncoder`). Only models of
            open_clip encode texts.
        pretrained: weights of an architecture or a class: a safetensors file, or a tag of open_clip. Null for timm: its
            own weights.
        download: whether weights may be downloaded from the Hugging Face Hub; otherwise only its cache is used.
        device: device of PyTorch on which the model runs: ``cpu``, ``cuda``, ``cuda:1``.
        batch_size: number of frames encoded at a time. A smaller batch is padded, so that the last bits of an embedding
            do not depend on the other frames of its batch.
        cache_frames: number of frames whose embeddings are cached; 0: none.
    """

    model: str = "tabletop"
    pretrained: str | None = None
    download: bool = False
    device: str = "cpu"
    batch_size: int = option(20, low=1)
    cache_frames: int = option(20_000, low=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        require(bool(self.model), "model", "a name", self.model)

    def encoder(self) -> "EncoderConfig":
        """Return only the fields of this class, which identify an encoder."""
        return EncoderConfig(**{item.name: getattr(self, item.name) for item in fields(EncoderConfig)})


@dataclass(frozen=True)
class ImagesConfig(EncoderConfig):
    """Processing of images by a module.

    Attributes (besides those of :class:`EncoderConfig`):
        model: ``colours``: the mean colours of at most 16 x 16 cells. ``convolutional``: those of at most 64 x 64
            cells, as an image for a small convolutional network, which is trained with the rest of the module.
            Otherwise the features of a model that is not trained further, computed once for each content of a frame:
            one of :class:`EncoderConfig`.
    """

    model: str = COLOURS
