"""The videos of a run by what they show: the policy before and after learning, and failures."""

import re
from pathlib import Path
from typing import NamedTuple

from .runs import Run

FAILURE = "failure_"
"""Beginning of the names of videos of failures; the number of the episode, from 1, follows."""

_CAPTIONS = {"start": "before the first step", "final": "at the end"}
"""Captions of the videos that every run makes; both show episodes from the same start states."""


class RunVideo(NamedTuple):
    """A video of a run.

    Attributes:
        path: the file.
        caption: what it shows.
        failure: number of the failed episode of the final evaluation that it shows, from 0; None: it is another video.
    """

    path: Path
    caption: str
    failure: int | None


def run_videos(run: Run) -> list[RunVideo]:
    """Return the videos of a run: the policy before and after, other videos, then failures."""
    videos = []
    for path in run.videos:
        match = re.fullmatch(rf"{FAILURE}([0-9]{{1,9}})", path.stem, re.ASCII)
        caption = f"failure, episode {int(match[1])}" if match else _CAPTIONS.get(path.stem, path.stem)
        videos.append(RunVideo(path, caption, int(match[1]) - 1 if match else None))
    return sorted(videos, key=lambda video: (video.failure is not None, video.path.stem != "start", video.path.name))
