"""Images as PNG files and as videos."""

import math
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Literal, cast

import av
import cv2
import numpy as np
from numpy.typing import NDArray

from robo_rl.core import MAX_PIXELS, DataError, SpecError, decode_image_file

from .mp4 import check_mp4, grey_bits

Pictures = NDArray[np.uint8]

ENCODERS = ("libx264", "libsvtav1")
"""Encoders that are used if PyAV has them, the first one preferred; LeRobot reads the videos of both."""
DECODERS = ("h264", "hevc", "av1", "libdav1d", "libaom-av1", "vp9", "libvpx-vp9", "mpeg4")
"""Decoders that may be used; others are old and rare, and not hardened against malicious files."""

_LEAST_ROWS, _SPARE_COLUMNS = 280, 192
"""Rows and additional columns in the limit on the pixels of a frame, for buffers of FFmpeg's decoder of MPEG-4."""

_DARKEST, _BRIGHTEST, _SHARE = 5, 250, 0.01
"""Brightness (16 is black and 235 white) beyond which encoders leave at most this share of the pixels of an image."""
_FULL_RANGE = 2
"""Number by which a video states the full range of colours."""

_LATE = 0.4
"""Deviation of an image's time from its nominal time, in periods, that rounding cannot explain."""


def to_png(picture: Pictures) -> bytes:
    """Return ``picture`` (height, width, 3) in RGB order, or (height, width, 1), as a PNG file, which is lossless."""
    return bytes(
        cv2.imencode(".png", picture if picture.shape[2] == 1 else cv2.cvtColor(picture, cv2.COLOR_RGB2BGR))[1]
    )


def from_file(
    data: bytes, where: object, expected: tuple[int, int] | None = None, channels: Literal[1, 3] = 3
) -> Pictures:
    """Return the image in a PNG or JPEG file: (height, width, 3) in RGB order, or (height, width) with one channel.

    Args:
        data: content of the file.
        where: name of the file, for error messages.
        expected: required height and width; None: any up to :data:`robo_rl.core.MAX_PIXELS` pixels.
        channels: number of channels of the result.

    Raises:
        DataError: if the file is not an image, or has another size.
    """
    try:
        return decode_image_file(data, expected, channels=channels)
    except SpecError as error:
        raise DataError(f"{where}: {error}") from error


class VideoEncoder:
    """Writer of an MP4 file. Every second picture is a key frame, so that seeking is fast.

    Args:
        path: path of the file.
        height: height of the pictures.
        width: width of the pictures.
        rate: pictures per second [Hz].
        quality: constant rate factor of the encoder: 0 is best, 18 hardly differs from the original, 51 is worst.

    Attributes:
        codec: name of the codec.
        frames: number of pictures so far.
        size: size of the encoded data so far [bytes].

    Raises:
        DataError: if PyAV has no encoder, or height or width is odd, which the video format does not support.
    """

    def __init__(self, path: Path, height: int, width: int, rate: int, quality: int) -> None:
        if height % 2 or width % 2:
            raise DataError(
                f"a video needs images of even width and height, but these have {width} x {height} pixels: use "
                "format.images=png"
            )
        codec = next((codec for codec in ENCODERS if codec in av.codecs_available), None)
        if codec is None:
            raise DataError(f"the installed PyAV has no encoder {' or '.join(ENCODERS)}: use format.images=png")
        path.parent.mkdir(parents=True, exist_ok=True)
        self.codec = {"libx264": "h264", "libsvtav1": "av1"}[codec]
        self.frames = 0
        self.size = 0
        self._container = av.open(str(path), "w", format="mp4")
        options = {"crf": str(quality), "g": "2"}
        self._stream = cast(av.VideoStream, self._container.add_stream(codec, rate=Fraction(rate), options=options))
        self._stream.height, self._stream.width, self._stream.pix_fmt = height, width, "yuv420p"
        self._stream.thread_count = 1

    def add(self, pictures: Pictures) -> None:
        """Append ``pictures`` (n, height, width, 3)."""
        for picture in pictures:
            self._write(av.VideoFrame.from_ndarray(np.ascontiguousarray(picture), format="rgb24"))
        self.frames += len(pictures)

    def close(self) -> None:
        """Complete the file."""
        self._write(None)
        self._container.close()

    def _write(self, frame: av.VideoFrame | None) -> None:
        for packet in self._stream.encode(frame):
            self._container.mux(packet)
            self.size += packet.size


class VideoDecoder:
    """Reader of runs of images in one MP4 file; consecutive runs are fast.

    Args:
        path: path of the file.
        rate: expected number of images per second [Hz].
        frames: largest expected number of images.
        size: expected height and width; None: those in the header, up to ``MAX_PIXELS`` pixels.

    Attributes:
        size: height and width.
        rotation: counter-clockwise rotation [degrees] with which players show the images, once one was read. It is not
            applied.
        exceeds_range: whether an image was read that is brighter or darker than the limited range of colours allows.
            Images are converted as of this range unless the video states the full one.

    Raises:
        DataError: if the file is missing or damaged, has another size, claims more images, or is grey with more than
            8 bits.
    """

    def __init__(self, path: Path, rate: float, frames: int, size: tuple[int, int] | None = None) -> None:
        if not path.is_file():
            raise DataError(f"{path} is missing; the data is incomplete")
        check_mp4(path, frames)
        self._path, self._rate = path, rate
        self._next = self.rotation = 0
        self.exceeds_range = False
        with self._errors(), self._container() as container:
            if not container.streams.video:
                raise DataError(f"{path} holds no video")
            context = container.streams.video[0].codec_context
            self.size = context.height, context.width
            if context.name not in DECODERS:
                raise DataError(f"{path}: the codec {context.name!r} is not supported, only {', '.join(DECODERS)}")
            self._refuse_deep_grey(grey_bits(context.extradata) if context.name == "h264" else None, context.format)
        if self.size != (size or self.size) or math.prod(self.size) > MAX_PIXELS:
            expected = (
                f"of {size[0]} x {size[1]} pixels (height x width)" if size else f"of at most {MAX_PIXELS} pixels"
            )
            raise DataError(f"{path}: expected images {expected}, the video has {self.size[0]} x {self.size[1]}")
        self._frames = self._decoded()

    def read(self, first: int, count: int) -> Pictures:
        """Return images ``first`` to ``first + count - 1`` (count, height, width, 3) in RGB order.

        Raises:
            DataError: if the video is damaged, has fewer images, or images are not one period apart.
        """
        if first < self._next:
            self._frames.close()
            self._next, self._frames = 0, self._decoded()
        images = np.empty((count, *self.size, 3), np.uint8)
        with self._errors():
            while self._next < first + count:
                frame = next(self._frames, None)
                if frame is None:
                    raise DataError(f"{self._path}: expected at least {first + count} images, found {self._next}")
                self._check(frame)
                if self._next >= first:
                    images[self._next - first] = frame.to_ndarray(format="rgb24")
                self._next += 1
        return images

    def is_over(self) -> bool:
        """Return whether no further image follows."""
        with self._errors():
            has_next = next(self._frames, None) is not None
        self._next += has_next
        return not has_next

    def close(self) -> None:
        """Close the file."""
        self._frames.close()

    def _refuse_deep_grey(self, stated: int | None, format_: "av.VideoFormat | None") -> None:
        """Refuse a grey video with more than 8 bits, according to ``stated`` or its format, as depth is stored."""
        components = format_.components if format_ is not None else ()
        bits = stated or (components[0].bits if len(components) == 1 else 0)
        if bits > 8:
            raise DataError(
                f"{self._path}: a grey video of {bits} bits, such as depth, which would be reduced to 8 bits: "
                "foreign.leave_out=[images/CAMERA] leaves the camera out"
            )

    def _check(self, frame: av.VideoFrame) -> None:
        self._refuse_deep_grey(None, frame.format)
        if (frame.height, frame.width) != self.size:
            raise DataError(
                f"{self._path}: image {self._next} has {frame.height} x {frame.width} pixels, expected {self.size}"
            )
        self.exceeds_range = self.exceeds_range or _exceeds_range(frame)
        if self._next == 0:
            self._begin = frame.time or 0.0
            self.rotation = frame.rotation % 360
        expected = self._next / self._rate
        if frame.time is not None and abs(frame.time - self._begin - expected) * self._rate > _LATE:
            raise DataError(
                f"{self._path}: image {self._next} is shown at {frame.time - self._begin:.4g} s, but at {self._rate:g} "
                f"Hz it should be at {expected:.4g} s: the video has gaps or another rate"
            )

    def _container(self) -> "av.container.InputContainer":
        # Other formats of FFmpeg may refer to further files or to network addresses.
        return av.open(
            str(self._path), format="mp4", options={"protocol_whitelist": "file", "max_pixels": str(MAX_PIXELS)}
        )

    def _decoded(self) -> "Generator[av.VideoFrame, None, None]":
        with self._container() as container:
            stream = container.streams.video[0]
            stream.thread_count = 1
            # Frame sizes may differ from the header; codecs pad to multiples of 128 at most.
            most = max(self.size[0] + 128, _LEAST_ROWS) * (self.size[1] + _SPARE_COLUMNS)
            stream.codec_context.options = {"max_pixels": str(most)}
            yield from container.decode(stream)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except av.FFmpegError as error:
            raise DataError(f"{self._path}: the video is damaged, or its images change size ({error})") from error


def _exceeds_range(frame: av.VideoFrame) -> bool:
    """Return whether an image of 8 bits that does not state the full range of colours exceeds the limited one."""
    component = frame.format.components[0]
    if frame.color_range == _FULL_RANGE or not component.is_luma or component.bits != 8 or not frame.format.is_planar:
        return False
    plane = frame.planes[0]
    rows = np.frombuffer(bytes(plane), np.uint8).reshape(-1, plane.line_size)[:, : frame.width]
    return float(np.mean((rows < _DARKEST) | (rows > _BRIGHTEST))) > _SHARE
