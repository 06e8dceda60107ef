"""Check of the sample tables of MP4 files. Their counts are compared with the expected ones before FFmpeg reads them.

Written from ISO/IEC 14496-12: a file consists of boxes with a size and a name, some of which contain boxes.
"""

import mmap
import struct
from pathlib import Path

from robo_rl.core import DataError

_CONTAINERS = {b"moov", b"trak", b"mdia", b"minf", b"stbl", b"moof", b"traf", b"edts", b"mvex"}
_FULL_COUNTS = {b"stsz": 8, b"stz2": 8, b"stts": 4, b"ctts": 4, b"stsc": 4, b"stco": 4, b"co64": 4, b"trun": 4}
"""Offset of the number of entries within a table."""
_RUNS = {b"stts", b"ctts"}
"""Run-length tables: an entry is a number of samples and their common value."""
_WITH_CHROMA_FORMAT = {44, 83, 86, 100, 110, 118, 122, 128, 134, 135, 138, 139, 244}
"""H.264 profiles whose parameters state whether there are colours (ITU-T H.264, 7.3.2.1.1)."""
_MAX_BOXES = 10_000
_SPARE = 1000
"""Additional samples that are allowed besides the images of a video, for other tracks and edit lists."""


def check_mp4(path: Path, frames: int) -> None:
    """Check that no table of an MP4 file claims many more samples than ``frames``.

    Raises:
        DataError: if a table does, or the boxes are damaged.
    """
    try:
        with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
            _Boxes(data, path, 4 * frames + _SPARE).check(0, len(data), 0)
    except (ValueError, struct.error) as error:
        raise DataError(f"{path} is not an MP4 file, or is damaged ({error})") from error


class _Boxes:
    def __init__(self, data: mmap.mmap, path: Path, most: int) -> None:
        self._data, self._path, self._most = data, path, most
        self._boxes = self._samples = 0

    def check(self, position: int, end: int, depth: int) -> None:
        while position + 8 <= end:
            self._boxes += 1
            size, name = struct.unpack_from(">I4s", self._data, position)
            begin = position + 8
            if size == 1:
                (size,) = struct.unpack_from(">Q", self._data, begin)
                begin += 8
            stop = end if size == 0 else position + size
            if not begin <= stop <= end or self._boxes > _MAX_BOXES or depth > len(_CONTAINERS):
                raise ValueError(f"box {name!r} at byte {position} does not fit")
            if name in _CONTAINERS:
                self.check(begin, stop, depth + 1)
            elif name in _FULL_COUNTS:
                self._table(name, begin, stop)
            position = stop

    def _table(self, name: bytes, begin: int, end: int) -> None:
        (count,) = struct.unpack_from(">I", self._data, begin + _FULL_COUNTS[name])
        if name == b"trun":  # counts of fragments add up
            self._samples += count
        largest = max(count, self._samples)
        if name in _RUNS and largest <= self._most:
            first = begin + 8
            if first + 8 * count > end:
                raise ValueError(f"table {name!r} ends too early")
            largest = max(largest, sum(struct.unpack_from(f">{2 * count}I", self._data, first)[::2]))
        if largest > self._most:
            raise DataError(
                f"{self._path}: table {name.decode()} claims {largest} samples, expected at most {self._most}"
            )


def grey_bits(configuration: bytes | None) -> int | None:
    """Return the bits of the grey values of an H.264 video, which FFmpeg decodes as one with colours.

    Args:
        configuration: content of the box ``avcC``.

    Returns:
        None if the video has colours, or does not state what it has.
    """
    if configuration is None or len(configuration) < 12 or configuration[9] not in _WITH_CHROMA_FORMAT:
        return None
    parameters = configuration[12:].replace(b"\x00\x00\x03", b"\x00\x00")[:32]  # removes the emulation prevention bytes
    bits = "".join(f"{byte:08b}" for byte in parameters)
    numbers = []
    for _ in range(3):  # number of the set, chroma format, bits of the grey values: each an Exp-Golomb code
        zeros = len(bits) - len(bits.lstrip("0"))
        code, bits = bits[: 2 * zeros + 1], bits[2 * zeros + 1 :]
        if len(code) <= 2 * zeros:
            return None
        numbers.append(int(code, 2) - 1)
    return 8 + numbers[2] if numbers[1] == 0 else None
