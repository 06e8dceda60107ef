"""Labels of a data set's observations by a person, in labels.json; docs/reference/datasets.md describes the format."""

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import DataError, parse_json, read_bytes, reading, whole_number, write_durably

from .disk import disk_errors
from .layout import EpisodeRecord
from .store import EpisodeStore

FORMAT = "robo_rl labels"
FORMAT_VERSION = 1
FILE = "labels.json"
MOST_BYTES = 256 << 20

UNKNOWN = -1

Labels = NDArray[np.int8]


class LabelBook:
    """Labels of a data set.

    The label of an observation is the stage of the task that it shows, from 0 (the beginning; failure) to ``stages``
    (success), or :data:`UNKNOWN`. The checksum of an episode is stored with its labels, so that they cannot be applied
    to another episode.

    Args:
        store: the data set; the labels are in its folder.
        stages: number of stages after the first.

    Raises:
        DataError: if the file is damaged, or has labels of another number of stages or of other episodes.
    """

    def __init__(self, store: EpisodeStore, stages: int) -> None:
        self._records = dict(enumerate(store.records))
        self._path = store.path / FILE
        self._stages = stages
        self._episodes: dict[int, Labels] = {}
        self._read()

    @property
    def numbers(self) -> list[int]:
        """Numbers of the labelled episodes."""
        return sorted(self._episodes)

    def __getitem__(self, number: int) -> Labels:
        """Return the labels (L + 1,) of the observations of an episode of L steps."""
        return self._episodes[number]

    def put(self, number: int, labels: Labels) -> None:
        """Label an episode and save the labels, together with labels that other processes have saved meanwhile.

        Raises:
            DataError: if the file cannot be written, or has become unusable.
            ValueError: if the labels do not match the episode's length or the stages.
        """
        self.update({number: labels})

    def update(self, labels: Mapping[int, Labels]) -> None:
        """Label several episodes, by number, as :meth:`put` does; save the labels once."""
        for number, values in labels.items():
            _check(values, self._records[number], self._stages)
        with disk_errors(self._path, "write the labels"), _lock(self._path.parent):
            self._read()
            self._episodes |= labels
            facts = {
                "format": FORMAT,
                "format_version": FORMAT_VERSION,
                "stages": self._stages,
                "episodes": [
                    {
                        "number": labelled,
                        "crc32": _checksum(self._records[labelled]),
                        "labels": self._episodes[labelled].tolist(),
                    }
                    for labelled in self.numbers
                ],
            }
            write_durably(self._path, json.dumps(facts).encode())

    def _read(self) -> None:
        """Read the labels from the file, if it exists."""
        if not self._path.exists():
            return
        with disk_errors(self._path, "read the labels"):
            text = read_bytes(self._path, MOST_BYTES)
        with reading(self._path, advice="restore it, or remove it and label again"):
            facts = parse_json(text, str(self._path))
            if (facts["format"], facts["format_version"]) != (FORMAT, FORMAT_VERSION):
                raise ValueError(f"expected format {FORMAT!r}, version {FORMAT_VERSION}")
            stages = facts["stages"]
            checksums = {whole_number(episode["number"]): episode.get("crc32") for episode in facts["episodes"]}
            labels = {
                episode["number"]: np.array([whole_number(label, UNKNOWN, 127) for label in episode["labels"]], np.int8)
                for episode in facts["episodes"]
            }
        if stages != self._stages:
            raise DataError(
                f"{self._path} has labels of {stages} stages, expected {self._stages}: use the number of stages in the "
                "file, or remove the file and label again"
            )
        for number, checksum in checksums.items():
            try:
                if checksum != _checksum(self._records[number]):
                    raise ValueError("the episode has changed")
                _check(labels[number], self._records[number], stages)
            except (ValueError, KeyError) as error:
                raise DataError(
                    f"{self._path}: the labels of episode {number} do not belong to the stored episode ({error}): "
                    "remove the file and label again"
                ) from error
        self._episodes = labels


def stages_of(store: EpisodeStore) -> int | None:
    """Return the number of stages of a data set's labels; None if it has no labels.

    Raises:
        DataError: if the file is damaged.
    """
    path = store.path / FILE
    if not path.exists():
        return None
    with disk_errors(path, "read the labels"):
        text = read_bytes(path, MOST_BYTES)
    with reading(path, advice="restore it, or remove it and label again"):
        return whole_number(parse_json(text, str(path))["stages"], 1, 127)


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """Hold an exclusive lock on ``folder``, for which other processes that label the data set wait."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _checksum(record: EpisodeRecord) -> int:
    """Return a checksum that distinguishes an episode from another one with the same number."""
    return record.crc32["executed_action"]


def _check(labels: Labels, record: EpisodeRecord, stages: int) -> None:
    if labels.shape != (record.steps + 1,) or labels.min() < UNKNOWN or labels.max() > stages:
        raise ValueError(
            f"expected {record.steps + 1} labels from {UNKNOWN} to {stages}, got {labels.shape} from "
            f"{labels.min(initial=0)} to {labels.max(initial=0)}"
        )
