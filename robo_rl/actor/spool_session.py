"""Records of one session of a spool: an index of their positions on disk, and the recovery after a crash."""

import os
import struct
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from isal import isal_zlib

from robo_rl.core import DataError

_HEADER = struct.Struct("<QII")
"""Header of a record: its sequence number, its length and its CRC-32."""


class Place(NamedTuple):
    """Location of a record: a position in ``file``, or ``record`` in memory if ``file`` is None."""

    file: Path | None
    offset: int
    size: int
    record: bytes = b""


class SpoolSession:
    """Records of one session on disk, with an index of their locations.

    Args:
        folder: folder of the session, whose records are indexed.

    Attributes:
        places: locations of the records, by sequence number.
        files: files of the records, oldest first.
        first: smallest stored sequence number.
        end: largest stored sequence number plus 1.
        damaged_bytes: bytes of incomplete records that a crash left at the ends of files, and that were removed.
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
        """Bytes of the stored records."""
        return sum(place.size for place in self.places.values())

    def _scan(self, file: Path) -> None:
        """Index the complete records of ``file``; truncate it after them if a crash left an incomplete record."""
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
        """Add the next record to the index."""
        self.places[sequence] = place
        self.end = sequence + 1

    def places_from(self, sequence: int, max_bytes: int) -> list[Place]:
        """Return locations of records from ``sequence`` on, up to ``max_bytes`` but at least one if there is one."""
        places: list[Place] = []
        total = 0
        while (place := self.places.get(sequence)) is not None and (not places or total + place.size <= max_bytes):
            places.append(place)
            total += place.size
            sequence += 1
        return places

    def forget(self, sequence: int) -> tuple[int, list[Path]]:
        """Remove the records below ``sequence`` from the index; return their bytes, and the files to delete."""
        end = min(sequence, self.end)
        freed_bytes = sum(self.places.pop(number).size for number in range(self.first, end))
        self.first = max(self.first, end)
        files = []
        # The last file may still be written to; it is deleted with its session.
        while len(self.files) > 1 and int(self.files[1].stem) <= self.first:
            files.append(self.files.pop(0))
        return freed_bytes, files


def header(sequence: int, record: bytes) -> bytes:
    """Return the header that precedes a record in a file."""
    return _HEADER.pack(sequence, len(record), isal_zlib.crc32(record))


def read_places(places: Iterable[Place]) -> list[bytes]:
    """Return the records at ``places``.

    Raises:
        DataError: if a file has been truncated since it was written.
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
