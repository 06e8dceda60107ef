"""Videos, written by the product's writer and read back by PyAV's decoder."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import av
import numpy as np

from robo_rl.evaluation.video import Frame, VideoWriter


def write_video(path: Path, frames: Iterable[Frame], frame_rate: float) -> None:
    """Write ``frames`` as an MP4 at ``frame_rate`` [Hz]."""
    with VideoWriter(path, frame_rate) as writer:
        for frame in frames:
            writer.add(frame)


def read_video(path: Path) -> Iterator[Frame]:
    """Yield the frames of a video file."""
    with av.open(str(path)) as container:
        for frame in container.decode(video=0):
            yield frame.to_ndarray(format="rgb24").astype(np.uint8, copy=False)
