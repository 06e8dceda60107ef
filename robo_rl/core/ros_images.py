"""Decoding of Image and CompressedImage of sensor_msgs into arrays, for robots and bags."""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .errors import SpecError, nearest
from .image_files import decode_image_file, read_image_header

ENCODINGS: dict[str, tuple[str, int, str | None]] = {
    "rgb8": ("u1", 3, None),
    "bgr8": ("u1", 3, "BGR2RGB"),
    "rgba8": ("u1", 4, "RGBA2RGB"),
    "bgra8": ("u1", 4, "BGRA2RGB"),
    "mono8": ("u1", 1, "GRAY2RGB"),
    "8UC1": ("u1", 1, "GRAY2RGB"),
    "yuv422": ("u1", 2, "YUV2RGB_UYVY"),
    "uyvy": ("u1", 2, "YUV2RGB_UYVY"),
    "yuv422_yuy2": ("u1", 2, "YUV2RGB_YUY2"),
    "yuyv": ("u1", 2, "YUV2RGB_YUY2"),
    "bayer_rggb8": ("u1", 1, "BayerRGGB2RGB"),
    "bayer_bggr8": ("u1", 1, "BayerBGGR2RGB"),
    "bayer_gbrg8": ("u1", 1, "BayerGBRG2RGB"),
    "bayer_grbg8": ("u1", 1, "BayerGRBG2RGB"),
    "mono16": ("u2", 1, None),
    "16UC1": ("u2", 1, None),
    "32FC1": ("f4", 1, None),
}
"""Stored type and channels, and OpenCV's conversion to RGB, by encoding."""


class RosImage(Protocol):
    """A sensor_msgs/msg/Image of any library."""

    height: int
    width: int
    encoding: str
    is_bigendian: int
    step: int
    data: Any


def decode_ros_image(message: RosImage) -> NDArray[Any]:
    """Return an RGB image as uint8 (height, width, 3); a 16-bit or float image, such as depth, as (height, width).

    Raises:
        SpecError: if the encoding is not supported, or the bytes do not match the image.
    """
    import cv2  # slow to import, and few commands decode images

    encoding, height, width, step = message.encoding, message.height, message.width, message.step
    if encoding not in ENCODINGS:
        raise SpecError(
            f"unknown encoding {encoding!r} of an image of {width} x {height} pixels; {nearest(encoding, ENCODINGS)}. "
            "Let the camera's driver or image_proc publish one of these"
        )
    kind, channels, conversion = ENCODINGS[encoding]
    dtype = np.dtype(kind).newbyteorder(">" if message.is_bigendian else "<")
    # rclpy returns bytes as array.array.
    data = message.data if isinstance(message.data, np.ndarray) else np.frombuffer(message.data, np.uint8)
    row = width * channels * dtype.itemsize
    halved = conversion is not None and conversion.startswith("YUV")
    if height < 1 or width < 1 or step < row or len(data) != height * step or (halved and width % 2):
        raise SpecError(
            f"{len(data)} bytes are not a {encoding} image of {width} x {height} pixels with rows of {step} bytes"
        )
    rows = np.ascontiguousarray(data.reshape(height, step)[:, :row]).view(dtype)
    if conversion is None and channels == 1:
        return rows.astype(dtype.newbyteorder("="))
    image = rows.reshape(height, width, channels) if channels > 1 else rows
    return image if conversion is None else np.asarray(cv2.cvtColor(image, getattr(cv2, f"COLOR_{conversion}")))


def _convert_pattern(encoding: str, pattern: NDArray[Any]) -> NDArray[Any]:
    """Return the RGB image of a Bayer pattern (height, width)."""
    import cv2

    if encoding not in ENCODINGS or pattern.dtype != np.uint8:
        patterns = [name for name in ENCODINGS if name.startswith("bayer_")]
        raise SpecError(f"unknown encoding {encoding!r} of a {pattern.dtype} image; {nearest(encoding, patterns)}")
    return np.asarray(cv2.cvtColor(pattern, getattr(cv2, f"COLOR_{ENCODINGS[encoding][2]}")))


class RosCompressedImage(Protocol):
    """A sensor_msgs/msg/CompressedImage of any library."""

    format: str
    data: Any


def decode_ros_compressed_image(message: RosCompressedImage) -> NDArray[Any]:
    """Return a PNG or JPEG as RGB uint8 (height, width, 3); a 16-bit PNG as it is stored.

    The format of image_transport is ``bayer_rggb8; jpeg compressed``: encoding of the camera, file format and, if the
    image was converted before it was compressed, the encoding that it was converted to. A Bayer pattern that was not
    converted becomes RGB.

    Raises:
        SpecError: if it is neither, or damaged.
    """
    data = bytes(message.data)
    encoding, _, packed = (part.strip() for part in message.format.partition(";"))
    is_pattern = encoding.startswith("bayer_") and packed.split(" ")[-1] in ("", "compressed", encoding)
    try:
        if "compressedDepth" in message.format:
            raise SpecError("compressedDepth is not supported; publish it as PNG or raw")
        header = read_image_header(data)
        if is_pattern and header.channels == 1:
            return _convert_pattern(encoding, decode_image_file(data))
        return decode_image_file(data, channels=3 if header.dtype == "uint8" else None)
    except SpecError as error:
        raise SpecError(f"{len(data)} bytes of format {message.format!r} are not an image ({error})") from error
