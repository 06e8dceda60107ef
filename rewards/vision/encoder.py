"""Frozen encoders of images: CLIP models (open_clip), which also encode texts, models of timm, and others."""

import hashlib
import logging
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor

from robo_rl.core import ConfigError, DataError

from .cache import Floats, FrameCache, Frames
from .encoder_config import EncoderConfig
from .files import ModelFiles, encoder_class, find_files
from .libraries import open_clip, timm


class FrozenEncoder(ABC):
    """Base class of models that are not trained further. Use :func:`load_encoder` to create one.

    Attributes:
        images: returns the features (n, E) of frames (n, H, W, 3) uint8, from the cache if possible.
        size: E.
        fingerprint: hash (hexadecimal) of weights and preprocessing.

    Raises:
        ConfigError: if there is no such model or device.
        DataError: if the files of the model are damaged.
    """

    def __init__(self, config: EncoderConfig) -> None:
        files = find_files(config.model, config.pretrained, config.download)
        try:
            model, preprocessing = self._load(files)
        except Exception as error:  # safetensors, PyTorch, open_clip and timm raise many kinds of errors
            reason = " ".join(str(error).split())
            message = f"the model {config.model} cannot be loaded from {files.weights}: {reason[:400]}"
            raise DataError(message) from error
        try:
            self._model = model.to(config.device).eval().requires_grad_(False)
        except (RuntimeError, AssertionError) as error:
            first = str(error).strip().partition("\n")[0]
            raise ConfigError(f"device must be one that PyTorch has here, got {config.device!r} ({first})") from error
        self._device = config.device
        self._batch_size = config.batch_size
        self._preprocess = Preprocessing(preprocessing)
        self.fingerprint = _fingerprint(model, preprocessing)
        self.size = self.encode(np.zeros((1, 32, 32, 3), np.uint8)).shape[1]
        self.images = FrameCache(self.encode, self.size, config.cache_frames)

    @abstractmethod
    def _load(self, files: ModelFiles) -> tuple[Any, dict[str, Any]]:
        """Return the PyTorch model with its weights, and the argument of :class:`Preprocessing`.

        Any exception means that the files are not valid for the model.
        """

    @abstractmethod
    def _features(self, pictures: Tensor) -> Tensor:
        """Return features (n, E) of pictures from :class:`Preprocessing`."""

    @torch.inference_mode()
    def encode(self, frames: Frames) -> Floats:
        """Compute the features (n, E) of one or more frames (n, H, W, 3), without the cache."""
        features = []
        for begin in range(0, len(frames), self._batch_size):
            chunk = torch.from_numpy(frames[begin : begin + self._batch_size]).to(self._device)
            filled = chunk.new_zeros(self._batch_size, *chunk.shape[1:])
            filled[: len(chunk)] = chunk
            features.append(self._features(self._preprocess(filled))[: len(chunk)].float().cpu().numpy())
        return np.concatenate(features)


class ClipEncoder(FrozenEncoder):
    """CLIP model. Its features are embeddings of unit length."""

    def _load(self, files: ModelFiles) -> tuple[Any, dict[str, Any]]:
        model = _load_clip(files)
        self._tokenizer = open_clip().get_tokenizer(files.name)
        return model, model.visual.preprocess_cfg

    def _features(self, pictures: Tensor) -> Tensor:
        embeddings: Tensor = self._model.encode_image(pictures, normalize=True)
        return embeddings

    @torch.inference_mode()
    def texts(self, texts: Sequence[str]) -> Floats:
        """Return the embeddings (k, E) of unit length of k texts."""
        tokens = self._tokenizer(list(texts)).to(self._device)
        embeddings: Floats = self._model.encode_text(tokens, normalize=True).float().cpu().numpy()
        return embeddings


class TimmEncoder(FrozenEncoder):
    """Model of timm without its head. Its features are the inputs of the head.

    Whole pictures are resized to the input size of the model, without keeping the aspect ratio.
    """

    def _load(self, files: ModelFiles) -> tuple[Any, dict[str, Any]]:
        model = timm().create_model(files.name, pretrained=False, num_classes=0)
        # Unexpected keys belong to the head.
        missing = model.load_state_dict(load_file(files.weights), strict=False).missing_keys
        if missing:
            raise ValueError(f"it lacks {missing[0]!r}")
        data_config = timm().data.resolve_model_data_config(model)
        preprocessing = {key: data_config[key] for key in ("mean", "std", "interpolation")}
        size = data_config["input_size"][1:]
        return model, {**preprocessing, "size": size, "resize_mode": "squash", "fill_color": 0}

    def _features(self, pictures: Tensor) -> Tensor:
        features: Tensor = self._model(pictures)
        return features


class TorchEncoder(FrozenEncoder):
    """PyTorch module of a user's class, created without arguments. Its features are its output (n, E).

    Attributes of the class determine its input pictures (n, 3, H, W): whole pictures are resized to ``image_size``, an
    edge or (H, W) [pixels], without keeping the aspect ratio. Colours in [0, 1] are reduced by ``mean`` and divided by
    ``std``; the defaults leave them unchanged.
    """

    def _load(self, files: ModelFiles) -> tuple[Any, dict[str, Any]]:
        model = encoder_class(files.name)()
        model.load_state_dict(load_file(files.weights))
        colours = {"mean": getattr(model, "mean", 0.0), "std": getattr(model, "std", 1.0)}
        resizing = {"size": model.image_size, "interpolation": "bicubic", "resize_mode": "squash", "fill_color": 0}
        return model, {**colours, **resizing}

    def _features(self, pictures: Tensor) -> Tensor:
        features = self._model(pictures)
        if not isinstance(features, Tensor) or features.dim() != 2:
            shape = tuple(features.shape) if isinstance(features, Tensor) else type(features).__name__
            raise ConfigError(f"model: features of pictures {tuple(pictures.shape)} must be (n, E), got {shape}")
        return features


_ENCODERS: dict[str, type[FrozenEncoder]] = {"open_clip": ClipEncoder, "timm": TimmEncoder, "torch": TorchEncoder}


class Preprocessing:
    """Preprocessing of pictures as in open_clip, for whole batches.

    Args:
        config: configuration of the model's image tower: ``size``, ``mean``, ``std``, ``interpolation``,
            ``resize_mode`` (``shortest``: the shorter side is scaled to the size and the centre is cropped;
            ``longest``: the longer side is scaled to the size and the rest is filled; ``squash``: both sides are
            scaled) and ``fill_color``.
    """

    def __init__(self, config: dict[str, Any]) -> None:
        open_clip()
        from torchvision.transforms import InterpolationMode
        from torchvision.transforms import functional as transforms

        self._transforms = transforms
        size = config["size"]
        self._size = (size, size) if isinstance(size, int) else tuple(size)
        bilinear = config["interpolation"] == "bilinear"
        self._interpolation = InterpolationMode.BILINEAR if bilinear else InterpolationMode.BICUBIC
        self._mode = config["resize_mode"]
        self._fill = config["fill_color"]
        mean, deviation = (
            torch.tensor(value if isinstance(value, (list, tuple)) else [value] * 3).view(3, 1, 1)
            for value in (config["mean"], config["std"])
        )
        self._scale, self._shift = 1 / (255 * deviation), -mean / deviation

    def __call__(self, frames: Tensor) -> Tensor:
        """Return normalised pictures (n, 3, *size) of frames (n, H, W, 3) uint8."""
        pictures = self.resized(frames.permute(0, 3, 1, 2)).to(torch.float32, memory_format=torch.contiguous_format)
        return pictures.mul_(self._scale.to(frames.device)).add_(self._shift.to(frames.device))

    def resized(self, pictures: Tensor) -> Tensor:
        """Return pictures (n, 3, H, W) uint8 resized to (n, 3, *size) uint8."""
        size, current = self._size, tuple(pictures.shape[-2:])
        if current == size:
            return pictures
        if self._mode == "squash":
            return self._resize(pictures, size)
        ratios = [target / source for target, source in zip(size, current, strict=True)]
        ratio = min(ratios) if self._mode == "longest" else max(ratios)
        # The side that sets the scale is exact; the other is truncated as in torchvision (longest: rounded).
        to_integer = round if self._mode == "longest" or size[0] != size[1] else int
        scaled = self._resize(
            pictures,
            tuple(w if r == ratio else to_integer(h * ratio) for w, h, r in zip(size, current, ratios, strict=True)),
        )
        if self._mode != "longest":
            cropped: Tensor = self._transforms.center_crop(scaled, list(size))
            return cropped
        top_edge, left_edge = ((target - source) // 2 for target, source in zip(size, scaled.shape[-2:], strict=True))
        filled = scaled.new_full((*scaled.shape[:2], *size), self._fill)
        filled[..., top_edge : top_edge + scaled.shape[-2], left_edge : left_edge + scaled.shape[-1]] = scaled
        return filled

    def _resize(self, pictures: Tensor, size: tuple[int, ...]) -> Tensor:
        resized: Tensor = self._transforms.resize(pictures, list(size), self._interpolation, antialias=True)
        return resized


_loaded: WeakValueDictionary[tuple[EncoderConfig, str, int], FrozenEncoder] = WeakValueDictionary()


def load_encoder(config: EncoderConfig) -> FrozenEncoder:
    """Return the encoder of a configuration. While it is in use, the same object is returned, to share its cache.

    Raises:
        ConfigError: if there is no such model or device.
        DataError: if the files of the model are damaged.
    """
    files = find_files(config.model, config.pretrained, config.download)
    key = (config, str(files.weights), files.weights.stat().st_mtime_ns)
    encoder = _loaded.get(key)
    if encoder is None:
        encoder = _loaded[key] = _ENCODERS[files.library](config)
    return encoder


def _load_clip(files: ModelFiles) -> Any:
    """Return a CLIP model with its weights.

    open_clip would choose the file of weights itself, in some folders a pickle, so they are loaded in a second step.
    """
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)  # open_clip warns that the weights, which are loaded next, are random
    try:
        model = open_clip().create_model(files.name, load_weights=False, pretrained_text=False, **files.overrides)
        open_clip().load_checkpoint(model, str(files.weights))
    finally:
        logging.disable(before)
    return model


def _fingerprint(model: Any, preprocessing: dict[str, Any]) -> str:
    """Return a hash of everything that the features depend on."""
    digest = hashlib.blake2b(digest_size=16)
    digest.update(repr(sorted(preprocessing.items())).encode())
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy())
    return digest.hexdigest()
