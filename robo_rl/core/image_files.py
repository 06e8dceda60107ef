"""Decoding of PNG and JPEG files whose header is compared with expectations before anything is decoded.

A few bytes can declare gigabytes, so the header is parsed strictly: anything that the decoding library would have to
guess is rejected (ITU-T T.81, annex B; PNG, third edition).
"""

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import SpecError

MAX_PIXELS = 2**25
"""Pixels of the largest image that is decoded without an expected size; 8K video fits."""

_MAX_SCANS = 24
"""Scans of a JPEG; each may cost as much time as the whole image. Progressive encoders write about ten."""
_JPEG_FRAMES = (0xC0, 0xC1, 0xC2)
"""Frame headers: baseline, extended and progressive, all Huffman-coded."""
_PNG_CHANNELS = {0: 1, 2: 3, 3: 3, 6: 4}
"""Channels by colour type: grey, RGB, palette, RGBA."""
_PNG_KEPT = (b"IHDR", b"PLTE", b"IDAT", b"IEND")
"""Chunks that make up the image; all others (profiles, texts, further frames) are removed before decoding."""


@dataclass(frozen=True)
class ImageHeader:
    """The declarations in the header of an image file.

    Attributes:
        kind: ``PNG`` or ``JPEG``.
        height: height in pixels.
        width: width in pixels.
        channels: 1, 3 (RGB) or 4 (RGBA).
        dtype: ``uint8`` or ``uint16``.
    """

    kind: str
    height: int
    width: int
    channels: int
    dtype: str = "uint8"

    @property
    def shape(self) -> tuple[int, ...]:
        """(height, width) of one channel, else (height, width, channels)."""
        return (self.height, self.width) if self.channels == 1 else (self.height, self.width, self.channels)

    def __str__(self) -> str:
        return f"a {self.kind} of {self.height} x {self.width} pixels, {self.channels} channels, {self.dtype}"


def read_image_header(data: bytes | memoryview) -> ImageHeader:
    """Return the declarations in the header of a PNG or JPEG file, without decoding anything.

    Raises:
        SpecError: if ``data`` is neither, or its header is damaged or ambiguous.
    """
    if data[:8] == b"\x89PNG\r\n\x1a\n":
        return _png_header(data)
    if data[:2] == b"\xff\xd8":
        return _jpeg_header(data)
    raise SpecError(f"{len(data)} bytes are neither a PNG nor a JPEG file (they begin with {bytes(data[:8]).hex(' ')})")


def decode_image_file(
    data: bytes | memoryview, expected: tuple[int, int] | None = None, channels: int | None = None
) -> NDArray[Any]:
    """Return the image of a PNG or JPEG file: (height, width), (height, width, 3) RGB or (height, width, 4) RGBA.

    An orientation in EXIF metadata is ignored.

    Args:
        data: the file.
        expected: required height and width; None to accept up to ``MAX_PIXELS``.
        channels: 1 or 3 to convert 8-bit grey or RGB images to this number of channels; None to keep them as stored.

    Raises:
        SpecError: if the header does not match, or the data is damaged.
    """
    import cv2  # slow to import, and few commands decode images

    header = read_image_header(data)
    if expected is not None and (header.height, header.width) != tuple(expected):
        raise SpecError(f"expected an image of {expected[0]} x {expected[1]} pixels (height x width), found {header}")
    if header.height * header.width > MAX_PIXELS:
        raise SpecError(f"expected an image of at most {MAX_PIXELS} pixels, found {header}")
    if channels is not None and (header.dtype != "uint8" or header.channels == 4):
        raise SpecError(f"expected an 8-bit grey or RGB image, found {header}")
    file = np.frombuffer(_reduced_png(data) if header.kind == "PNG" else data, np.uint8)
    flags = {None: cv2.IMREAD_UNCHANGED, 1: cv2.IMREAD_GRAYSCALE, 3: cv2.IMREAD_COLOR_RGB}[channels]
    try:
        image = cv2.imdecode(file, flags if channels is None else flags | cv2.IMREAD_IGNORE_ORIENTATION)
    except cv2.error as error:
        raise SpecError(f"{header} is damaged ({error})") from error
    if image is None:
        raise SpecError(f"{header} is damaged")
    shape = header.shape if channels is None else ImageHeader("", header.height, header.width, channels).shape
    if image.shape != shape:
        raise SpecError(f"{header} decodes to shape {image.shape}; it is damaged")
    if channels is None and image.ndim == 3:
        image = cv2.cvtColor(image, cv2.COLOR_BGR2RGB if image.shape[2] == 3 else cv2.COLOR_BGRA2RGBA)
    return np.asarray(image)


def _png_header(data: bytes | memoryview) -> ImageHeader:
    if len(data) < 33 or data[8:16] != b"\x00\x00\x00\rIHDR":
        raise SpecError("a PNG has no header; it is damaged")
    width, height, bits, colours = struct.unpack(">IIBB", data[16:26])
    if colours == 4:
        raise SpecError("a PNG is grey with alpha; expected grey, RGB or RGBA")
    if not height or not width or colours not in _PNG_CHANNELS or bits not in (1, 2, 4, 8, 16):
        raise SpecError(
            f"a PNG's header declares {height} x {width} pixels, colour type {colours}, {bits} bits; it is damaged"
        )
    return ImageHeader("PNG", height, width, _PNG_CHANNELS[colours], "uint16" if bits == 16 else "uint8")


def _reduced_png(data: bytes | memoryview) -> bytes:
    """Return a PNG with only the chunks that make up the image: others may expand without limit."""
    parts, position = [bytes(data[:8])], 8
    while position + 12 <= len(data):
        end = position + 12 + int.from_bytes(data[position : position + 4], "big")
        name = bytes(data[position + 4 : position + 8])
        if end > len(data):
            break
        if name in _PNG_KEPT:
            parts.append(bytes(data[position:end]))
        position = end
        if name == b"IEND":
            return b"".join(parts)
    raise SpecError("a PNG ends too early; it is damaged")


def _jpeg_header(data: bytes | memoryview) -> ImageHeader:
    """Read the segments up to the frame header strictly."""
    position = 2
    while position + 4 <= len(data):
        marker_at = position
        while marker_at < len(data) and data[marker_at] == 0xFF:  # fill bytes may precede a marker
            marker_at += 1
        if marker_at == position or marker_at + 3 > len(data):
            break
        marker, length = data[marker_at], int.from_bytes(data[marker_at + 1 : marker_at + 3], "big")
        segment = data[marker_at + 3 : marker_at + 1 + length]
        if marker in _JPEG_FRAMES and len(segment) >= 6:
            return _jpeg_frame(data, segment)
        # Only tables, comments and application data may precede a frame.
        if length < 2 or not (marker in (0xC4, 0xDB, 0xDD, 0xFE) or 0xE0 <= marker <= 0xEF):
            break
        position = marker_at + 1 + length
    raise SpecError("a JPEG has no supported frame header (baseline or progressive); it may be damaged")


def _jpeg_frame(data: bytes | memoryview, segment: bytes | memoryview) -> ImageHeader:
    bits, channels = segment[0], segment[5]
    height, width = int.from_bytes(segment[1:3], "big"), int.from_bytes(segment[3:5], "big")
    if bits != 8 or channels not in (1, 3) or len(segment) != 6 + 3 * channels or not height or not width:
        raise SpecError(f"a JPEG's header declares {height} x {width} pixels of {channels} x {bits} bits; unsupported")
    whole = bytes(data)
    if (scans := whole.count(b"\xff\xda")) > _MAX_SCANS:
        raise SpecError(f"a JPEG of {height} x {width} pixels has {scans} scans; at most {_MAX_SCANS} are read")
    if b"\xff\xd9" not in whole[-4096:]:
        raise SpecError(f"a JPEG of {height} x {width} pixels ends too early; it is damaged")
    return ImageHeader("JPEG", height, width, channels)
