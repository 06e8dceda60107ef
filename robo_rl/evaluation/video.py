"""Videos of episodes as H.264 MP4 files, which browsers can play."""

import math
from collections.abc import Sequence
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import cast

import av
import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from ..core import Closing, DataError, RenderingError, require
from .runs import POSTER

Frame = NDArray[np.uint8]
"""A picture (height, width, 3) in RGB order."""

_ENCODERS = ("libx264", "libopenh264")
_COLOURS = {True: (110, 231, 160), False: (255, 140, 120), None: (255, 255, 255)}


class VideoWriter(Closing):
    """Writer of an MP4 file, frame by frame; a context manager.

    The format is H.264 in yuv420p with the index at the start, so that browsers can play the file and seek at once. The
    file appears under its name when it is complete. After an error there is no file; a killed writer leaves only
    ``<name>.partial``.
    """

    def __init__(self, path: Path, frame_rate: float) -> None:
        """Open ``path`` for writing, at ``frame_rate`` [Hz]. With the control rate, the video plays in real time."""
        require(path.suffix == ".mp4", "video", "a file name that ends in .mp4", str(path))
        require(frame_rate > 0, "frame_rate", "positive", frame_rate)
        self.path = path
        self._rate = frame_rate
        self._partial = path.with_name(path.name + ".partial")
        self._encoder: _PyAvEncoder | _OpenCvEncoder | None = None
        path.parent.mkdir(parents=True, exist_ok=True)
        self._partial.unlink(missing_ok=True)  # writing would follow a link of this name

    def add(self, frame: Frame, caption: str = "", success: bool | None = None) -> None:
        """Append ``frame``, with a small ``caption`` in the upper left corner, coloured by ``success``.

        Raises:
            DataError: if the frame is not a uint8 picture or differs in size from the first one.
        """
        if frame.dtype != np.uint8 or frame.ndim != 3 or frame.shape[2] != 3:
            raise DataError(f"expected a uint8 picture (height, width, 3), got {frame.dtype} {frame.shape}")
        even = _even(annotate(frame, caption, success) if caption else frame)
        if self._encoder is None:
            self._encoder = _encoder(self._partial, self._rate, even.shape[0], even.shape[1])
        if even.shape[:2] != (self._encoder.height, self._encoder.width):
            size = f"{self._encoder.width} x {self._encoder.height}"
            raise DataError(f"{self.path.name}: expected every frame in {size} pixels, got {frame.shape}")
        self._encoder.add(even)

    def close(self) -> None:
        """Complete the file; without frames, no file is written."""
        if self._encoder is not None:
            encoder, self._encoder = self._encoder, None
            try:
                encoder.close()
                self._partial.replace(self.path)
            except (OSError, av.FFmpegError):  # for example on a full disk
                self._partial.unlink(missing_ok=True)
                raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        elif self._encoder is not None:
            encoder, self._encoder = self._encoder, None
            with suppress(OSError, av.FFmpegError):
                encoder.close()
            self._partial.unlink(missing_ok=True)


class _PyAvEncoder:
    def __init__(self, codec: str, path: Path, rate: float, height: int, width: int) -> None:
        self.height, self.width = height, width
        self._container = av.open(str(path), "w", format="mp4", options={"movflags": "faststart"})
        options = {"crf": "20", "preset": "medium"} if codec == "libx264" else {}
        stream = self._container.add_stream(codec, rate=Fraction(rate).limit_denominator(1000), options=options)
        self._stream = cast(av.VideoStream, stream)
        self._stream.height, self._stream.width, self._stream.pix_fmt = height, width, "yuv420p"
        self._stream.thread_count = 1  # a control loop or a learner may need the other cores

    def add(self, frame: Frame) -> None:
        for packet in self._stream.encode(av.VideoFrame.from_ndarray(np.ascontiguousarray(frame), format="rgb24")):
            self._container.mux(packet)

    def close(self) -> None:
        try:
            for packet in self._stream.encode():
                self._container.mux(packet)
        finally:
            self._container.close()


class _OpenCvEncoder:
    """Encoder for builds of PyAV without H.264; OpenCV may find an encoder of the operating system."""

    def __init__(self, path: Path, rate: float, height: int, width: int) -> None:
        self.height, self.width = height, width
        # OpenCV derives the container format from the suffix.
        self._path, self._working = path, path.with_suffix(".mp4")
        fourcc = cv2.VideoWriter.fourcc(*"avc1")
        self._writer = cv2.VideoWriter(str(self._working), fourcc, rate, (width, height))
        if not self._writer.isOpened():
            raise RenderingError(
                "no H.264 encoder found; install one with `pip install av` (PyAV) or write no video (eval: video=null, "
                "train: run.video_episodes=0)"
            )

    def add(self, frame: Frame) -> None:
        self._writer.write(np.ascontiguousarray(frame[..., ::-1]))

    def close(self) -> None:
        self._writer.release()
        self._working.replace(self._path)


def _encoder(path: Path, rate: float, height: int, width: int) -> _PyAvEncoder | _OpenCvEncoder:
    for codec in _ENCODERS:
        if codec in av.codecs_available:
            return _PyAvEncoder(codec, path, rate, height, width)
    return _OpenCvEncoder(path, rate, height, width)


def write_poster(video: Path) -> Path:
    """Write the first frame of a video of this program as a JPEG beside it, and return its path.

    Raises:
        DataError: if the video cannot be decoded or the file cannot be written.
    """
    poster = video.with_suffix(POSTER)
    try:
        with av.open(str(video)) as container:
            frame = next(container.decode(video=0)).to_ndarray(format="rgb24")
        Image.fromarray(frame).save(poster, quality=80)
    except (OSError, StopIteration, av.FFmpegError) as error:
        raise DataError(f"{video}: no picture of it can be made ({error})") from error
    return poster


def annotate(frame: Frame, caption: str, success: bool | None = None) -> Frame:
    """Return a copy of ``frame`` with a small ``caption`` at the upper left: green after success, red after failure.

    The caption is at the top because browsers display their controls at the bottom. It is left out if the picture is so
    small that the caption would hide it.
    """
    image = Image.fromarray(frame)
    pen = ImageDraw.Draw(image, "RGBA")
    size = max(9, frame.shape[0] // 26)
    font = ImageFont.load_default(size)
    place = (size * 1.1, size * 1.0)
    left, top, right, bottom = pen.textbbox(place, caption, font=font, anchor="lt")
    if right > 0.7 * frame.shape[1]:
        return frame.copy()
    margin = size * 0.5
    box = (left - margin, top - margin, right + margin, bottom + margin)
    pen.rounded_rectangle(box, radius=size * 0.4, fill=(16, 18, 24, 150))
    pen.text(place, caption, fill=_COLOURS[success], font=font, anchor="lt")
    return np.asarray(image, dtype=np.uint8)


def tile(clips: Sequence[Sequence[Frame]], columns: int | None = None, gap: int = 4) -> list[Frame]:
    """Return frames that show several clips side by side; a clip that ends earlier keeps its last frame.

    Args:
        clips: clips of pictures (height, width, 3) of the same size.
        columns: number of clips in a row; None: about the square root of the number of clips.
        gap: distance between clips [pixels].

    Raises:
        DataError: if there is no clip, a clip is empty, or sizes differ.
    """
    if not clips or not all(clips):
        raise DataError("expected at least one clip, each with a frame")
    if len({frame.shape for clip in clips for frame in clip}) > 1:
        raise DataError(f"expected clips of one size, got {sorted({clip[0].shape for clip in clips})}")
    height, width, _ = clips[0][0].shape
    columns = min(len(clips), columns or math.ceil(math.sqrt(len(clips))))
    rows = math.ceil(len(clips) / columns)
    tiled = []
    for time in range(max(len(clip) for clip in clips)):
        sheet = np.zeros((rows * (height + gap) - gap, columns * (width + gap) - gap, 3), dtype=np.uint8)
        for index, clip in enumerate(clips):
            top, left = (index // columns) * (height + gap), (index % columns) * (width + gap)
            sheet[top : top + height, left : left + width] = clip[min(time, len(clip) - 1)]
        tiled.append(sheet)
    return tiled


def _even(frame: Frame) -> Frame:
    """Make the sizes even by repeating the last row or column: yuv420p halves the resolution of colours."""
    rows, columns = frame.shape[0] % 2, frame.shape[1] % 2
    return np.pad(frame, ((0, rows), (0, columns), (0, 0)), mode="edge") if rows or columns else frame
