"""Representations of images for reward modules: coarse colours, features of a frozen network, or small pictures."""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from .encoder import FrozenEncoder, load_encoder
from .encoder_config import COLOURS, CONVOLUTIONAL, ImagesConfig

Floats = NDArray[np.float32]
Images = NDArray[np.uint8]
Pictures = TypeVar("Pictures", Floats, Images)

CELLS = 16
"""Largest number of cells along each side of an image, whose colours are averaged."""
FINE_CELLS = 64
"""Largest number of cells along each side for a convolutional network that is trained with the module."""


def images_encoder(config: ImagesConfig) -> FrozenEncoder | None:
    """Return the frozen network of a representation, or None if it needs none.

    Raises:
        ConfigError: if there is no such model or device.
        DataError: if the files of the model are damaged.
    """
    return None if config.model in (COLOURS, CONVOLUTIONAL) else load_encoder(config.encoder())


def features(images: Images, encoder: FrozenEncoder) -> Floats:
    """Return the features (..., F) of stacks of pictures (..., H, W, C), concatenated for each stack."""
    *leading, height, width, channels = images.shape
    stacked = images.reshape(-1, height, width, channels // 3, 3).transpose(0, 3, 1, 2, 4)
    return encoder.images(stacked.reshape(-1, height, width, 3)).reshape(*leading, -1)


def cell_colours(images: Images, most: int) -> Floats:
    """Return the mean colours (..., h, w, C) in [0, 1] of cells of images (..., H, W, C), h and w at most ``most``.

    Cells are rectangles of equal size; remaining pixels at the right and the bottom are left out.
    """
    *leading, height, width, channels = images.shape
    tall, wide = -(-height // most), -(-width // most)
    rows, columns = height // tall, width // wide
    cells = images[..., : rows * tall, : columns * wide, :].reshape(*leading, rows, tall, columns, wide, channels)
    colours: Floats = cells.mean(axis=(-4, -2), dtype=np.float32) / np.float32(255)
    return colours


def moved(images: Images, down: int, right: int) -> Images:
    """Return images (..., H, W, C) moved by whole pixels; the border is repeated."""
    height, width = images.shape[-3:-1]
    rows = np.clip(np.arange(height) - down, 0, height - 1)
    columns = np.clip(np.arange(width) - right, 0, width - 1)
    return images[..., rows[:, None], columns, :]


def each_moved(pictures: Pictures, moves: NDArray[np.int64]) -> Pictures:
    """Return pictures (n, h, w, C), each moved by its own pixels (n, 2), down and right; the border is repeated."""
    height, width = pictures.shape[1:3]
    down, right = moves.T[:, :, None]
    rows = np.clip(np.arange(height) - down, 0, height - 1)
    columns = np.clip(np.arange(width) - right, 0, width - 1)
    result: Pictures = pictures[np.arange(len(pictures))[:, None, None], rows[:, :, None], columns[:, None, :]]
    return result
