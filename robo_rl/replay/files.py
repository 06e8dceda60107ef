"""Files of a data set: the list of committed episodes and the arrays that hold their rows."""

import contextlib
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, overload

import numpy as np
from isal import isal_zlib
from numpy.typing import NDArray

from robo_rl.core import DataError, EnvSpec

from .chunk_limits import ChunkLimits
from .chunks import ChunkWriter, Rows, is_written_so
from .disk import CommitLog, disk_errors
from .layout import EpisodeRecord, observation_fields, open_arrays, step_fields

EPISODES = "episodes.jsonl"
ARRAYS = "arrays.zarr"

GROWTH_ROWS = 8192
"""Number of rows by which arrays grow. Each new length costs one file write and flush for each array."""


class EpisodeRecords(Sequence[EpisodeRecord]):
    """Records in ``lines``, each parsed on access: a record takes five times the memory of its line.

    The lines must have been validated before.
    """

    def __init__(self, lines: Sequence[bytes]) -> None:
        self._lines = lines

    def __len__(self) -> int:
        return len(self._lines)

    @overload
    def __getitem__(self, index: int) -> EpisodeRecord: ...

    @overload
    def __getitem__(self, index: slice) -> list[EpisodeRecord]: ...

    def __getitem__(self, index: int | slice) -> EpisodeRecord | list[EpisodeRecord]:
        if isinstance(index, slice):
            return list(map(EpisodeRecord.from_line, self._lines[index]))
        return EpisodeRecord.from_line(self._lines[index])


class EpisodeFiles:
    """Open files of a data set.

    Rows are written to the arrays first. They become an episode when its record is appended to the list. While a data
    set is being written, its arrays are longer than its episodes; :meth:`close` truncates them.

    Attributes:
        records: records of the committed episodes.

    Args:
        path: folder of the data set.
        spec: observations, actions and reward terms of the data set.
        writable: lock the data set, and remove rows that a killed writer left behind.

    Raises:
        DataError: if a file is missing, damaged or locked, or cannot be read or written.
    """

    def __init__(self, path: Path, spec: EnvSpec, writable: bool) -> None:
        self.path = path
        self.spec = spec
        self._writable = writable
        self._starts = [0]
        self._step_names = [field.name for field in step_fields(spec)]
        self._observation_names = [field.name for field in observation_fields(spec)]
        self._log = CommitLog(path / EPISODES, writable)
        try:
            self.records = EpisodeRecords(self._log.lines)
            for line in self._log.lines:
                self._starts.append(self._starts[-1] + self._parse(line).steps)
            self._arrays = open_arrays(path / ARRAYS, spec, writable)
            self._limits = {name: ChunkLimits(array, path / ARRAYS / name) for name, array in self._arrays.items()}
            self._writers = {
                name: ChunkWriter(array, path / ARRAYS / name)
                for name, array in self._arrays.items()
                if is_written_so(array)
            }
            self._check_lengths()
            if writable:
                self.cut_back()
        except BaseException:
            self._log.close()
            raise

    @property
    def step_rows(self) -> int:
        """Number of committed steps."""
        return self._starts[-1]

    @property
    def observation_rows(self) -> int:
        """Number of committed observations: an episode has one more observation than steps."""
        return self.step_rows + len(self.records)

    def read(self, name: str, first: int, records: Sequence[EpisodeRecord]) -> list[NDArray[Any]]:
        """Return the rows of consecutive episodes in one array.

        Args:
            name: name of the array.
            first: number of the first episode.
            records: records of the episodes.

        Raises:
            DataError: if the rows are damaged.
        """
        extra = 0 if name in self._step_names else 1
        starts = [self._starts[number] + extra * number for number in range(first, first + len(records) + 1)]
        try:
            self._limits[name].check(starts[0], starts[-1])
            block = np.ascontiguousarray(self._arrays[name][starts[0] : starts[-1]])
        except Exception as error:  # Zarr and its codecs raise any kind of error on a damaged file
            if len(records) > 1:  # read one by one to find the damaged episode
                return [
                    rows for number, record in enumerate(records, first) for rows in self.read(name, number, [record])
                ]
            raise self._damaged(first, name, str(error)) from error
        episodes = [block[begin - starts[0] : end - starts[0]] for begin, end in pairwise(starts)]
        for number, (rows, record) in enumerate(zip(episodes, records, strict=True), start=first):
            if isal_zlib.crc32(rows.data) != record.crc32.get(name):
                raise self._damaged(number, name, "wrong checksum")
        return episodes

    def row(self, name: str, number: int, index: int) -> NDArray[Any]:
        """Return row ``index`` of an episode in one array, without reading the whole episode.

        The checksum of its chunk is checked instead of the episode's.

        Raises:
            DataError: if the row does not exist or is damaged.
        """
        extra = 0 if name in self._step_names else 1
        if not 0 <= index < self.records[number].steps + extra:
            raise DataError(f"{self.path}: episode {number} has no row {index} of {name}")
        place = self._starts[number] + extra * number + index
        try:
            self._limits[name].check(place, place + 1)
            return np.asarray(self._arrays[name][place])
        except Exception as error:  # as in read
            raise self._damaged(number, name, str(error)) from error

    def write(self, name: str, start: int, rows: Rows) -> None:
        """Store uncommitted rows from row ``start`` on.

        Raises:
            DataError: if the rows cannot be written, or the rows before them are damaged.
        """
        array = self._arrays[name]
        stop = start + len(rows)
        with disk_errors(self.path, "store the episode"):
            if array.shape[0] < stop:
                array.resize((-(-stop // GROWTH_ROWS) * GROWTH_ROWS, *array.shape[1:]))
            if name in self._writers:
                self._writers[name].write(start, rows)
            else:
                array[start:stop] = np.asarray(rows)

    def commit(self, *records: EpisodeRecord) -> int:
        """Commit the written rows as episodes; return the number of the first episode.

        Raises:
            DataError: if the records cannot be written.
        """
        number = len(self.records)
        with disk_errors(self.path, "store the episode"):
            self._log.append(*(record.to_line() for record in records))
        for record in records:
            self._starts.append(self._starts[-1] + record.steps)
        return number

    def drop_last(self) -> None:
        """Delete the newest episode.

        Raises:
            DataError: if the files cannot be written.
        """
        with disk_errors(self.path, "delete the last episode"):
            self._log.drop_last()
        self._starts.pop()
        self.cut_back()

    def cut_back(self) -> None:
        """Truncate the arrays to the rows of committed episodes.

        Raises:
            DataError: if the files cannot be written.
        """
        with disk_errors(self.path, "remove the remains of an unfinished episode"):
            for name, array in self._arrays.items():
                if array.shape[0] != self._committed(name):
                    array.resize((self._committed(name), *array.shape[1:]))

    def try_cut_back(self) -> None:
        """Call :meth:`cut_back`; if it fails, on a full disk for example, leave it to the next writer."""
        with contextlib.suppress(DataError):
            self.cut_back()

    def close(self) -> None:
        """Close the files and release the lock. May be called twice."""
        if self._writable:
            self._writable = False
            self.try_cut_back()
        self._log.close()

    def _committed(self, name: str) -> int:
        return self.step_rows if name in self._step_names else self.observation_rows

    def _parse(self, line: bytes) -> EpisodeRecord:
        try:
            record = EpisodeRecord.from_line(line)
            if missing := {*self._step_names, *self._observation_names} - record.crc32.keys():
                raise ValueError(f"no checksum for {sorted(missing)}")
        except ValueError as error:
            raise DataError(
                f"{self.path / EPISODES}: line {len(self._starts)} is damaged ({error}); restore the data set from a "
                "copy, or truncate the file before this line to keep the earlier episodes"
            ) from error
        return record

    def _check_lengths(self) -> None:
        for name, array in self._arrays.items():
            if array.shape[0] < self._committed(name):
                raise DataError(
                    f"{self.path / ARRAYS / name}: expected at least {self._committed(name)} rows for "
                    f"{len(self.records)} episodes, found {array.shape[0]}; restore the data set from a copy"
                )

    def _damaged(self, number: int, name: str, reason: str) -> DataError:
        return DataError(
            f"{self.path}: {name} of episode {number} is damaged ({reason}); restore the data set from a copy"
        )
