"""Pictures of a board: read from a folder, or chosen from those that a camera takes."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import DataError, ForeignFolder, SpecError, decode_image_file

from .board import Board, View

SUFFIXES = (".png", ".jpg", ".jpeg")
MOST_PICTURES = 1000
MOST_BYTES = 64 << 20
"""Largest file of a picture."""
SAME_VIEW = 0.02
"""Views whose common corners are on average nearer than this share of the picture's width are the same view."""
AT_REST = 0.001
"""Motion from one picture to the next, as a share of the width, below which a board is at rest."""

Picture = NDArray[np.uint8]


def read_picture(folder: Path, name: str) -> Picture:
    """Return the RGB picture (H, W, 3) in a file of a folder.

    Raises:
        FileNotFoundError: if it does not exist.
        DataError: if it is damaged, or has more than 64 MiB.
    """
    try:
        return decode_image_file(ForeignFolder(folder).read_bytes(name, MOST_BYTES), channels=3)
    except SpecError as error:
        raise DataError(f"{folder / name}: {error}") from error


def read_pictures(folder: Path, names: Iterable[str] | None = None) -> Iterator[tuple[str, Picture]]:
    """Yield name and RGB picture (H, W, 3) of the PNG and JPEG files of a folder, sorted by name.

    Args:
        folder: the folder.
        names: names of the files to read; None: all.

    Raises:
        DataError: if the folder has no pictures or too many, or a picture is damaged, missing or of another size.
    """
    if not folder.is_dir():
        raise DataError(f"there is no folder {folder}; name a folder of PNG or JPEG files")
    files = ForeignFolder(folder)
    present = [name for suffix in SUFFIXES for name in files.files(".", suffix, MOST_PICTURES + 1)]
    wanted = sorted(present if names is None else names)
    if not wanted:
        raise DataError(f"{folder} has no pictures: expected files with names in {', '.join(SUFFIXES)}")
    if len(wanted) > MOST_PICTURES:
        raise DataError(f"{folder} has more than {MOST_PICTURES} pictures; a calibration needs 20 to 50")
    size: tuple[int, ...] | None = None
    for name in wanted:
        try:
            picture = read_picture(folder, name)
        except FileNotFoundError:
            raise DataError(f"{folder} has no picture {name!r}, which the poses name") from None
        if size is not None and picture.shape != size:
            raise DataError(
                f"{folder / name} has {picture.shape[1]} x {picture.shape[0]} pixels, the pictures before it "
                f"{size[1]} x {size[0]}: take all with the same camera and settings"
            )
        size = picture.shape
        yield name, picture


def find_views(board: Board, pictures: Iterable[tuple[str, Picture]]) -> tuple[list[View], list[str]]:
    """Return the views of the board, and the names of pictures in which it was not found."""
    views, without = [], []
    for name, picture in pictures:
        view = board.find(name, picture)
        if view is None:
            without.append(name)
        else:
            views.append(view)
    return views, without


def nearest_view(view: View, others: Iterable[View]) -> tuple[View | None, float]:
    """Return the view whose common corners are nearest, and their mean distance as a share of the width."""
    nearest, least = None, np.inf
    for other in others:
        _, rows, other_rows = np.intersect1d(view.ids, other.ids, return_indices=True)
        if len(rows) >= min(len(view.ids), len(other.ids)) / 2:
            distances = np.linalg.norm(view.corners[rows] - other.corners[other_rows], axis=1)
            share = float(distances.mean()) / view.size[0]
            if share < least:
                nearest, least = other, share
    return nearest, least


def choose_views(
    board: Board, pictures: Iterable[Picture], count: int, taken: Iterable[View] = (), first: int = 0
) -> Iterator[tuple[View, Picture]]:
    """Yield each picture that shows the board at rest in a new view, until there are ``count``.

    The board is at rest if it moved by less than :data:`AT_REST` since the picture before. A new view differs from all
    earlier ones by three times :data:`SAME_VIEW`.

    Args:
        board: the board.
        pictures: RGB pictures (H, W, 3) of a camera, in the order in which it took them.
        count: number of views to yield.
        taken: views that exist already.
        first: number in the name of the first view.
    """
    views = list(taken)
    before: View | None = None
    for picture in pictures:
        view = board.find(f"view{first:03}.png", picture)
        at_rest = view is not None and before is not None and nearest_view(view, [before])[1] < AT_REST
        before = view
        if view is None or not at_rest or nearest_view(view, views)[1] < 3 * SAME_VIEW:
            continue
        views.append(view)
        yield view, picture
        first, count = first + 1, count - 1
        if count == 0:
            return
