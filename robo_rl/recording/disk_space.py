"""Free disk space, and the space that a recording needs."""

import contextlib
import shutil
from pathlib import Path

from ..core import DataError
from ..replay import EpisodeStore

SPARE_BYTES = 100e6
"""Space that must remain free besides an episode [bytes], for the replacement of files and for other programs."""


def check_space(store: EpisodeStore, going_on: str) -> None:
    """Check that the disk has room for another episode of ``store``, even for one of the greatest length.

    Args:
        store: data set, open for writing.
        going_on: command or option that continues the recording once there is room, for the message.

    Raises:
        DataError: if the disk does not have enough room.
    """
    free, needed = shutil.disk_usage(store.path).free, _needed_bytes(store)
    if free < needed:
        raise DataError(
            f"{store.path}: only {free / 1e9:.2f} GB are free on its disk, but another episode may need "
            f"{needed / 1e9:.2f} GB: free some space, then continue with {going_on}. The {len(store)} stored episodes "
            "are intact"
        )


class DiskSpace:
    """Free disk space of a data set, and the number of further episodes that it has room for.

    Args:
        store: data set, open for writing.
    """

    def __init__(self, store: EpisodeStore) -> None:
        self._store = store
        self._measured = 0
        self._episode_bytes = 1.0

    def describe(self) -> str:
        """Return a description of the free space. The number of episodes is estimated from the stored ones."""
        store, episodes = self._store, len(self._store)
        if episodes >= max(1, 2 * self._measured):  # not after each episode, because measuring a large data set is slow
            self._measured, self._episode_bytes = episodes, _folder_bytes(store.path) / episodes
        free = shutil.disk_usage(store.path).free
        text = f"{free / 1e9:.1f} GB free"
        if episodes == 0:
            return text
        available = free - _needed_bytes(store)
        count = 0 if available < 0 else 1 + int(available / self._episode_bytes)
        return f"{text}, about {count:,} more episodes"


def _needed_bytes(store: EpisodeStore) -> float:
    """Return an upper bound on the size of the longest episode, plus the space that must remain free."""
    steps = store.spec.max_episode_steps or max((record.steps for record in store.records), default=0)
    observation = sum(array.nbytes for array in store.spec.observation.values())  # nearly the whole size of an episode
    return SPARE_BYTES + (steps + 1) * observation


def _folder_bytes(folder: Path) -> int:
    total = 0
    for file in folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError):  # the file was replaced meanwhile, for example by `robo-rl label`
            total += file.stat().st_size
    return total
