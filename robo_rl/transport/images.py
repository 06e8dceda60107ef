"""Encoding of images as bytes. Received data is checked before decoding, since a few bytes may claim gigabytes."""

from typing import Any

import cv2
import numpy as np
from numcodecs.zstd import Zstd
from numpy.typing import NDArray

from robo_rl.core import ArraySpec, ConfigError, SpecError, decode_image_file, zstd_size

from . import messages_pb2 as messages
from .config import COMPRESSIONS

CODINGS: dict[str | None, Any] = dict(zip(COMPRESSIONS, (messages.RAW, messages.ZSTD, messages.JPEG), strict=True))
"""Codings by value of ``transport.image_compression``."""

JPEG_QUALITY = 90
ZSTD_LEVEL = 3

_ZSTD = Zstd(ZSTD_LEVEL)


def is_image(array: ArraySpec) -> bool:
    """Return whether arrays of this spec are sent as images: (height, width, channels) uint8."""
    return array.dtype == "uint8" and len(array.shape) == 3


def check_coding(compression: str | None, key: str, array: ArraySpec) -> None:
    """Check that images of ``array`` can be compressed by ``compression``.

    Raises:
        ConfigError: if they cannot.
    """
    if compression == "jpeg" and not _is_picture(array):
        raise ConfigError(
            f"transport.image_compression=jpeg needs images with 1 channel or 3 per frame, {key!r} has "
            f"{array.shape[2]}; choose zstd"
        )


def encode_image(image: NDArray[np.uint8], coding: Any) -> bytes | memoryview:
    """Return an image (height, width, channels) as bytes; a raw image as a view if it is contiguous."""
    if coding == messages.RAW:
        return np.ascontiguousarray(image).data.cast("B")
    if coding == messages.ZSTD:
        return bytes(_ZSTD.encode(np.ascontiguousarray(image)))
    if image.shape[2] > 1:  # stack the frames vertically
        frames = np.concatenate(np.split(image, image.shape[2] // 3, axis=2))
        image = np.asarray(cv2.cvtColor(frames, cv2.COLOR_RGB2BGR), np.uint8)
    return bytes(cv2.imencode(".jpg", image, (cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY))[1])


def decode_image(data: bytes | memoryview, array: ArraySpec, coding: int) -> NDArray[np.uint8]:
    """Return the image that ``data`` encodes, with the shape of ``array``; a raw image as a view.

    Raises:
        SpecError: if ``data`` is not an image of this coding and shape.
    """
    if coding == messages.RAW:
        return _shaped(data, array)
    if coding == messages.ZSTD:
        size = array.nbytes
        if zstd_size(data) != size:
            raise SpecError(f"expected {size} bytes compressed by zstd, got something else")
        try:
            return _shaped(_ZSTD.decode(data, np.empty(size, np.uint8)), array)
        except (RuntimeError, ValueError) as error:
            raise SpecError(f"an image compressed by zstd is damaged ({error})") from error
    if coding == messages.JPEG and _is_picture(array):
        return _decode_jpeg(data, array)
    raise SpecError(f"image coding {coding} is not one of {sorted(CODINGS.values())}, or not for images {array.shape}")


def _is_picture(array: ArraySpec) -> bool:
    return array.shape[2] == 1 or array.shape[2] % 3 == 0


def _shaped(data: Any, array: ArraySpec) -> NDArray[np.uint8]:
    flat = np.frombuffer(data, np.uint8)
    if flat.size != array.nbytes:
        raise SpecError(f"expected {array.nbytes} bytes, got {flat.size}")
    return flat.reshape(array.shape)


def _decode_jpeg(data: bytes | memoryview, array: ArraySpec) -> NDArray[np.uint8]:
    height, width, channels = array.shape
    frames = max(channels // 3, 1)
    if data[:2] != b"\xff\xd8":
        raise SpecError(f"expected a JPEG of {frames * height} x {width} pixels, got something else")
    decoded = decode_image_file(data, (frames * height, width), channels=1 if channels == 1 else 3)
    stacked = np.asarray(decoded, np.uint8).reshape(frames, height, width, -1)
    return np.concatenate(stacked, axis=2)
