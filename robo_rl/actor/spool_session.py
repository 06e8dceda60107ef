"""The records of one session of a spool: where each stands on disk, and what a crash left of them."""

import os
import struct
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from isal import isal_zlib

from robo_rl.core import DataError

_HEADER = struct.Struct("<QII")
"""Of each record: sequence number, length and CRC-32 of what follows."""


class Place(NamedTuple):
    """Where a record stands: in a file; or with None for it, here in memory alone."""

    file: Path | None
    offset: int
    size: int
    record: bytes = b""


class SpoolSession:
    """The records of one session on disk, and where each stands.

    Args:
        folder: of the session; what it holds is indexed.

    Attributes:
        places: of the records held, by sequence number.
        files: in which they stand, oldest first.
        first: smallest sequence number held.
        end: the one after the largest.
        damaged_bytes: at the ends of files, that a power cut left half written, and that were cut off.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.places: dict[int, Place] = {}
        self.files: list[Path] = []
        self.end = 0
        self.damaged_bytes = 0
        for file in sorted(folder.glob("*.spool")):
            self._scan(file)
        self.first = min(self.places, default=self.end)

    @property
    def held_bytes(self) -> int:
        """Bytes of the records held."""
        return sum(place.size for place in self.places.values())

    def _scan(self, file: Path) -> None:
        """Index the whole records of ``file``; what a crash of the machine left half written is cut off."""
        data = file.read_bytes()
        if not self.files:
            self.end = int(file.stem)
        self.files.append(file)
        offset = 0
        while offset + _HEADER.size <= len(data):
            sequence, size, checksum = _HEADER.unpack_from(data, offset)
            start = offset + _HEADER.size
            payload = data[start : start + size]
            if sequence != self.end or len(payload) != size or isal_zlib.crc32(payload) != checksum:
                break
            self.hold(sequence, Place(file, start, size))
            offset = start + size
        if offset < len(data):
            self.damaged_bytes += len(data) - offset
            os.truncate(file, offset)

    def hold(self, sequence: int, place: Place) -> None:
        """Take note of the record that follows."""
        self.places[sequence] = place
        self.end = sequence + 1

    def places_from(self, sequence: int, max_bytes: int) -> list[Place]:
        """Return where records from ``sequence`` on stand: at least one if there is one, else up to ``max_bytes``."""
        places: list[Place] = []
        total = 0
        while (place := self.places.get(sequence)) is not None and (not places or total + place.size <= max_bytes):
            places.append(place)
            total += place.size
            sequence += 1
        return places

    def forget(self, sequence: int) -> tuple[int, list[Path]]:
        """Forget the records below ``sequence``; return their bytes, and the files that can be deleted for that."""
        end = min(sequence, self.end)
        freed = sum(self.places.pop(number).size for number in range(self.first, end))
        self.first = max(self.first, end)
        files = []
        # The last file may be written still; it goes with its session.
        while len(self.files) > 1 and int(self.files[1].stem) <= self.first:
            files.append(self.files.pop(0))
        return freed, files


def header(sequence: int, record: bytes) -> bytes:
    """Return what stands before a record in a file."""
    return _HEADER.pack(sequence, len(record), isal_zlib.crc32(record))


def read_places(places: Iterable[Place]) -> list[bytes]:
    """Return the records that stand at ``places``.

    Raises:
        DataError: if a file has been damaged since it was written.
    """
    records = []
    for file, group in groupby(places, lambda place: place.file):
        if file is None:
            records += [place.record for place in group]
            continue
        with file.open("rb") as stream:
            for place in group:
                data = os.pread(stream.fileno(), place.size, place.offset)
                if len(data) != place.size:
                    raise DataError(f"{file} is shorter than it was written; do not change a spool that is in use")
                records.append(data)
    return records
