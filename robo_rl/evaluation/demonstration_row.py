"""Row of small pictures or drawings of the demonstrations of runs, for a report."""

import html
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from .page import data_url, section
from .runs import Run


class Thumbnail(NamedTuple):
    """A small picture of an episode, or the path of the end effector in it.

    Attributes:
        caption: number, length and outcome of the episode.
        content: a JPEG, or points (x, y) in [0, 1] of the path from above; None stands for a number that is not finite.
    """

    caption: str
    content: bytes | list[list[float | None]]


Thumbnails = Callable[[Path], Sequence[Thumbnail]]
"""Function of a run folder that returns the thumbnails of its demonstrations."""


def demonstration_row(runs: Sequence[Run], thumbnails: Thumbnails) -> str:
    """Return a section with the demonstrations of the runs; empty if there are none to show."""
    figures = []
    for run in runs:
        for caption, content in thumbnails(run.path):
            about = html.escape(caption if len(runs) == 1 else f"{run.name} · {caption}")
            if isinstance(content, bytes):
                picture = f'<img src="{data_url(content, "image/jpeg")}" alt="{about}">'
            else:
                picture = _drawing(content, about)
            figures.append(f"<figure>{picture}<figcaption>{about}</figcaption></figure>")
    row = f'<div class="thumbnails">{"".join(figures)}</div>'
    return section("Demonstrations", row, boxed=False) if figures else ""


def _drawing(path: list[list[float | None]], about: str) -> str:
    """Return a path with a dot at its end."""
    points = [(100 * x, 100 - 100 * y) for x, y in path if x is not None and y is not None]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dot = '<circle cx="{:.1f}" cy="{:.1f}" r="4"/>'.format(*points[-1]) if points else ""
    return f'<svg viewBox="-5 -5 110 110" role="img" aria-label="{about}"><polyline points="{line}"/>{dot}</svg>'
