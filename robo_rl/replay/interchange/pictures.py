"""Pictures as PNG files and as H.264 videos."""

from collections.abc import Generator
from fractions import Fraction
from pathlib import Path
from typing import cast

import av
import cv2
import numpy as np
from numpy.typing import NDArray

from robo_rl.core import DataError

Pictures = NDArray[np.uint8]

ENCODERS = ("libx264", "libsvtav1")
"""What PyAV may bring, the first is chosen; LeRobot reads both."""


def to_png(picture: Pictures) -> bytes:
    """Return ``picture`` (height, width, 3), red first, as a PNG file: without loss."""
    return bytes(cv2.imencode(".png", cv2.cvtColor(picture, cv2.COLOR_RGB2BGR))[1])


def from_file(data: bytes, where: Path) -> Pictures:
    """Return the picture (height, width, 3), red first, of a PNG or JPEG file.

    Raises:
        DataError: if it is none.
    """
    picture = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR_RGB) if data else None
    if picture is None:
        raise DataError(f"{where}: {len(data)} bytes are no picture; the data is damaged")
    return picture.astype(np.uint8)


class VideoEncoder:
    """An MP4 file that grows by pictures; every second one is a key frame, so that any is found fast.

    Args:
        path: of the file.
        height: of the pictures.
        width: of the pictures.
        rate: pictures a second [Hz].
        quality: constant rate factor of the encoder: 0 best, 18 hardly to be told from the original, 51 worst.

    Attributes:
        codec: name of what was chosen.
        frames: number of pictures so far.
        size: of what was encoded so far [bytes].

    Raises:
        DataError: if PyAV has no encoder, or height or width is odd, which this kind of video cannot hold.
    """

    def __init__(self, path: Path, height: int, width: int, rate: int, quality: int) -> None:
        if height % 2 or width % 2:
            raise DataError(
                f"a video holds pictures of even sizes only, these have {width} x {height} pixels: format.images=png"
            )
        codec = next((codec for codec in ENCODERS if codec in av.codecs_available), None)
        if codec is None:
            raise DataError(f"this PyAV encodes neither {' nor '.join(ENCODERS)}: choose format.images=png")
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
        """Finish the file."""
        self._write(None)
        self._container.close()

    def _write(self, frame: av.VideoFrame | None) -> None:
        for packet in self._stream.encode(frame):
            self._container.mux(packet)
            self.size += packet.size


class VideoDecoder:
    """Reads runs of pictures of one video; fast where they follow each other."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._next = 0
        self._frames = self._open()

    def read(self, first: int, count: int) -> Pictures:
        """Return pictures ``first`` to ``first + count`` (n, height, width, 3), red first.

        Raises:
            DataError: if the video is damaged or has fewer.
        """
        if first < self._next:
            self._frames.close()
            self._next, self._frames = 0, self._open()
        pictures = []
        try:
            while self._next < first + count:
                frame = next(self._frames)
                if self._next >= first:
                    pictures.append(frame.to_ndarray(format="rgb24"))
                self._next += 1
        except StopIteration:
            raise DataError(
                f"{self._path}: expected {first + count} pictures or more, found {self._next}; the data is damaged"
            ) from None
        except av.FFmpegError as error:
            raise DataError(f"{self._path}: the video is damaged ({error})") from error
        return np.stack(pictures)

    def close(self) -> None:
        """Close the file."""
        self._frames.close()

    def _open(self) -> "Generator[av.VideoFrame, None, None]":
        def frames() -> Generator[av.VideoFrame, None, None]:
            with av.open(str(self._path)) as container:
                yield from container.decode(video=0)

        if not self._path.is_file():
            raise DataError(f"{self._path} is missing; the data is damaged")
        return frames()
