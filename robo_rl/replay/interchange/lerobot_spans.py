"""Parts of videos that the episodes of a LeRobotDataset v3.0 consist of, according to its metadata."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from robo_rl.core import DataError

from . import lerobot_layout as layout

_ROUNDING = 0.5
"""Difference between the durations of an episode and of its part of a video that rounding explains, in periods."""
_LATEST = 10**9


class VideoSpan(NamedTuple):
    """Images of one episode in a video.

    Attributes:
        path: path of the file.
        first: number of the episode's first image in it.
        is_last: whether no image of another episode follows.
    """

    path: Path
    first: int = 0
    is_last: bool = True


def video_spans(root: Path, feature: str, episodes: Sequence[Mapping[str, Any]], rate: float) -> list[VideoSpan]:
    """Return the span of each episode in the videos of a camera.

    Args:
        root: folder of the data set.
        feature: name of the camera's feature.
        episodes: metadata of the episodes.
        rate: images per second [Hz].

    Raises:
        DataError: if an episode's span is not as long as the episode, or contains images of another episode.
    """
    spans = []
    for number, entry in enumerate(episodes):
        place = {name: int(entry[f"videos/{feature}/{name}"]) for name in ("chunk_index", "file_index")}
        path = root / layout.VIDEO_V3.format(video_key=feature, **place)
        begin, end = (entry.get(f"videos/{feature}/{name}_timestamp") for name in ("from", "to"))
        where = f"{root}: {feature!r} of episode {number} in {path.relative_to(root)}"
        if begin is None or not 0 <= begin * rate <= _LATEST:
            raise DataError(f"{where} begins at {begin} s, expected a time in the video")
        frames = entry["length"] if end is None else (end - begin) * rate
        if not abs(frames - entry["length"]) <= _ROUNDING:
            raise DataError(
                f"{where} is from {begin:g} to {end:g} s, {frames:.4g} images at {rate:g} Hz, but the episode has "
                f"{entry['length']} frames: a part is missing, or the metadata is wrong"
            )
        spans.append(VideoSpan(path, round(begin * rate)))
    order = sorted(range(len(spans)), key=lambda number: spans[number])
    order = [number for number in order if episodes[number]["length"]]
    for number, following in pairwise(order):
        (path, first, _), other = spans[number], spans[following]
        if path != other.path:
            continue
        if first + episodes[number]["length"] > other.first:
            raise DataError(
                f"{root}: {feature!r} of episodes {number} and {following} are the same images of "
                f"{path.relative_to(root)}, {other.first} to {first + episodes[number]['length'] - 1}"
            )
        spans[number] = spans[number]._replace(is_last=False)
    return spans
