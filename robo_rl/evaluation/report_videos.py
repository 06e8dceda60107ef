"""Videos and start states of runs in a report."""

import html
from collections.abc import Sequence
from pathlib import Path

from ..core import DataError, ForeignFolder
from .page import data_url, relative, section
from .run_videos import run_videos
from .runs import MOST_VIDEOS, POSTER, VIDEO_BYTES, Run
from .start_states import start_map

POSTER_BYTES = 1 << 20
"""Most bytes that are read of the picture of a video."""


class Players:
    """HTML of the videos of runs for one page.

    Args:
        page: HTML file. Videos are linked relative to it.
        embed: embed videos and their pictures in the page. Beyond a total of 128 MiB, videos are linked and pictures
            left out.
    """

    def __init__(self, page: Path, embed: bool) -> None:
        self._page, self._embed = page, embed
        self._remaining_bytes = VIDEO_BYTES

    def player(self, run: Run, video: Path, caption: str, identifier: str = "") -> str:
        """Return a player with a caption, in a figure with the id ``identifier``, if there is one."""
        caption = f"{run.name} · {caption}"
        source = relative(video, self._page)
        if self._embed:
            try:
                data = ForeignFolder(run.path).read_bytes(f"videos/{video.name}", self._remaining_bytes)
                self._remaining_bytes -= len(data)
                source = data_url(data, "video/mp4")
            except (OSError, DataError):
                caption += " (too large to embed: a link)"
        poster = self._poster(run, video)
        load = f'poster="{html.escape(poster)}" preload="none"' if poster else 'preload="metadata"'
        name = html.escape(caption)
        player = (
            f'<video src="{html.escape(source)}" {load} controls muted loop playsinline aria-label="{name}"></video>'
        )
        opening = f'<figure id="{identifier}">' if identifier else "<figure>"
        return f"{opening}{player}<figcaption>{name}</figcaption></figure>"

    def _poster(self, run: Run, video: Path) -> str:
        """Return the address of the picture of a video, or an empty text if there is none."""
        picture = video.with_suffix(POSTER)
        if picture.name not in ForeignFolder(run.path).files("videos", POSTER, MOST_VIDEOS):
            return ""
        if not self._embed:
            return relative(picture, self._page)
        try:
            most = min(POSTER_BYTES, self._remaining_bytes)
            data = ForeignFolder(run.path).read_bytes(f"videos/{picture.name}", most)
        except (OSError, DataError):
            return ""
        self._remaining_bytes -= len(data)
        return data_url(data, "image/jpeg")


def videos(runs: Sequence[Run], page: Path, embed: bool) -> str:
    """Return the videos of runs, then the map of their start states and their failures.

    Args:
        runs: the runs.
        page: HTML file that contains them.
        embed: see :class:`Players`.
    """
    players = Players(page, embed)
    figures, maps, failures = [], [], []
    for number, run in enumerate(runs):
        clips = {}
        for video in run_videos(run):
            if video.failure is None:
                figures.append(players.player(run, video.path, video.caption))
            else:
                clips[video.failure] = f"failure-{number}-{video.failure}"
                failures.append(players.player(run, video.path, video.caption, clips[video.failure]))
        maps.append(start_map(run, clips))
    return (
        _grid("Videos", figures)
        + _grid("Start states of the final evaluation", [figure for figure in maps if figure])
        + _grid("Failures", failures)
    )


def _grid(title: str, figures: Sequence[str]) -> str:
    return section(title, f'<div class="videos">{"".join(figures)}</div>', boxed=False) if figures else ""
