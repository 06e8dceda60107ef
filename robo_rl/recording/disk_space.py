"""Room for a recording on the disk."""

import contextlib
import shutil
from pathlib import Path

from ..core import DataError
from ..replay import EpisodeStore

SPARE_BYTES = 100e6
"""What a recording leaves free beside an episode: files are replaced whole, and others write to the disk too."""


def check_space(store: EpisodeStore, going_on: str) -> None:
    """Check that the disk has room for another episode of ``store``, however long it becomes.

    Args:
        store: open for writing.
        going_on: what the recording goes on with once there is room.

    Raises:
        DataError: if it has not.
    """
    free, needed = shutil.disk_usage(store.path).free, _needed_bytes(store)
    if free < needed:
        raise DataError(
            f"{store.path}: {free / 1e9:.2f} GB of its disk are free, and another episode may take "
            f"{needed / 1e9:.2f} GB: free some, then go on with {going_on}. The {len(store)} episodes that it "
            "holds are intact"
        )


class DiskSpace:
    """Says how much of a data set's disk is free, and how many more episodes that is.

    Args:
        store: open for writing.
    """

    def __init__(self, store: EpisodeStore) -> None:
        self._store = store
        self._measured = 0
        self._episode_bytes = 1.0

    def describe(self) -> str:
        """Return it in words; as many episodes as there is room for if they are as those stored so far."""
        store, episodes = self._store, len(self._store)
        if episodes >= max(1, 2 * self._measured):  # not after each: a large data set takes a while to measure
            self._measured, self._episode_bytes = episodes, _folder_bytes(store.path) / episodes
        free = shutil.disk_usage(store.path).free
        text = f"{free / 1e9:.1f} GB free"
        if episodes == 0:
            return text
        room = free - _needed_bytes(store)
        more = 0 if room < 0 else 1 + int(room / self._episode_bytes)
        return f"{text}, about {more:,} more episodes"


def _needed_bytes(store: EpisodeStore) -> float:
    """Return what the longest episode takes at most, and what is to be left."""
    steps = store.spec.max_episode_steps or max((record.steps for record in store.records), default=0)
    observation = sum(array.nbytes for array in store.spec.observation.values())  # nearly all of an episode
    return SPARE_BYTES + (steps + 1) * observation


def _folder_bytes(folder: Path) -> int:
    total = 0
    for file in folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError):  # somebody who labels episodes has replaced it
            total += file.stat().st_size
    return total
