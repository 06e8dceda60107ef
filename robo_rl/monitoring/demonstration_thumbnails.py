"""Thumbnails of the demonstrations in a run folder, for its report."""

from pathlib import Path

from ..core import DataError
from ..evaluation.demonstration_row import Thumbnail
from ..replay import EpisodeStore
from .watched_data import demonstrations_of, open_data_set, thumbnail

MOST_SHOWN = 12
"""Largest number of demonstrations of a run that a report shows."""


def demonstration_thumbnails(run: Path) -> list[Thumbnail]:
    """Return pictures of the first demonstrations in a run folder or, without cameras, the paths of the end effector.

    Demonstrations in other folders and damaged ones are left out.
    """
    thumbnails: list[Thumbnail] = []
    for path in demonstrations_of(run).sets:
        try:
            store, _ = open_data_set(path)
            with store:
                for number in range(min(len(store), MOST_SHOWN)):
                    thumbnails += _thumbnails_of(store, number)
        except (DataError, OSError):
            continue
    return thumbnails


def _thumbnails_of(store: EpisodeStore, number: int) -> list[Thumbnail]:
    """Return the thumbnail of an episode; none if neither pictures nor a path are recorded."""
    record, small = store.records[number], thumbnail(store, number, 1)
    outcome = {True: ", success", False: ", failure", None: ""}[record.success]
    caption = f"episode {number}, {record.steps} steps{outcome}"
    if isinstance(small, bytes):
        return [Thumbnail(caption, small)]
    return [Thumbnail(caption, drawing["line"]) for drawing in small["drawings"] if drawing["kind"] == "path"]
