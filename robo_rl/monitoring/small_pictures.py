"""Small pictures for pages, from arrays and from files of unknown origin. All functions are called in threads."""

import cv2
import numpy as np
from numpy.typing import NDArray

from ..actor import jpeg
from ..core import SpecError
from ..core.image_files import decode_image_file, read_image_header

MOST_PIXELS = 1 << 24
"""Largest number of pixels of a picture in a file that is decoded."""


def scaled(pixels: NDArray[np.uint8], width: int) -> NDArray[np.uint8]:
    """Return a picture (height, width, channels) scaled to ``width``, at most twice as high as wide."""
    height = min(max(round(pixels.shape[0] * width / pixels.shape[1]), 1), 2 * width)
    small = cv2.resize(pixels, (width, height), interpolation=cv2.INTER_AREA)
    return np.asarray(small, np.uint8).reshape(height, width, -1)


def scaled_file(data: bytes, width: int) -> bytes:
    """Return the picture in a JPEG or PNG file as a JPEG that is at most ``width`` wide.

    Raises:
        SpecError: if it is another file, is damaged, or has more than :data:`MOST_PIXELS`.
    """
    header = read_image_header(data)
    if header.height * header.width > MOST_PIXELS:
        raise SpecError(f"expected a picture of at most {MOST_PIXELS:,} pixels, found {header}")
    return jpeg(scaled(decode_image_file(data, channels=3), min(width, header.width)))
