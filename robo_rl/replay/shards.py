"""Large rows (images) into the shards of their Zarr array.

Zarr writes the same, but takes twice the processor time: each chunk is several tasks of its event loop. Reading is left
to it. A shard is its chunks, each encoded by itself, and an index of where they stand:
https://zarr-specs.readthedocs.io/en/latest/v3/codecs/sharding-indexed/.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import zarr
from numcodecs.blosc import BITSHUFFLE, Blosc
from numpy.typing import NDArray
from zarr.codecs import BloscCodec, Crc32cCodec

from robo_rl.core import DataError, write_durably

from .disk import make_folder

# Random frames and windows of images are read fastest with few frames a chunk; shards keep the number of files low.
CHUNK_ROWS = 10
SHARD_ROWS = 200

# The noise of images is in the low bits: LZ4 on shuffled bits is smaller than Zstandard on bytes, and ten times faster.
# Blosc has no checksum of its own, and what comes from a disk is checked before it is decoded.
COMPRESSORS = BloscCodec(typesize=1, cname="lz4", clevel=5, shuffle="bitshuffle"), Crc32cCodec()
_BLOSC = Blosc("lz4", clevel=5, shuffle=BITSHUFFLE, typesize=1)

_ABSENT = np.iinfo(np.uint64).max
_CHECKSUM_BYTES = 4


class ShardWriter:
    """Writes rows of one array. Every shard is replaced whole, on the disk when it is.

    Args:
        array: of :data:`COMPRESSORS`; see :func:`is_written_so`.
        folder: of the array.
    """

    def __init__(self, array: zarr.Array[Any], folder: Path) -> None:
        self._array = array
        self._folder = folder
        (self._chunk_rows, *_), (self._shard_rows, *_) = array.chunks, array.shards or array.chunks

    def write(self, start: int, rows: Sequence[NDArray[Any]] | NDArray[Any]) -> None:
        """Store ``rows`` at ``start`` and after it; the array is long enough. What stood behind them is lost.

        Raises:
            OSError: if the disk refuses.
            DataError: if the shard that the first row belongs to is damaged.
        """
        stop = start + len(rows)
        for first in range(start - start % self._shard_rows, stop, self._shard_rows):
            begin, end = max(first, start), min(first + self._shard_rows, stop)
            self._write_shard(first, begin, rows[begin - start : end - start])

    def _write_shard(self, first: int, begin: int, rows: Sequence[NDArray[Any]] | NDArray[Any]) -> None:
        place = first // self._shard_rows, *(0 for _ in self._array.shape[1:])
        path = self._folder / self._array.metadata.encode_chunk_key(place)
        kept, head = divmod(begin - first, self._chunk_rows)
        chunks = self._read_encoded(path, kept) if kept else []
        chunk = np.zeros((self._chunk_rows, *self._array.shape[1:]), self._array.dtype)
        if head:
            chunk[:head] = self._array[begin - head : begin]
        for position in range(-head, len(rows), self._chunk_rows):
            part = rows[max(position, 0) : position + self._chunk_rows]
            at = max(-position, 0)
            np.stack(list(part), out=chunk[at : at + len(part)])
            chunk[at + len(part) :] = 0
            chunks.append(_with_checksum(_BLOSC.encode(chunk)))
        index = np.full((self._shard_rows // self._chunk_rows, 2), _ABSENT, "<u8")
        sizes = np.array([len(chunk) for chunk in chunks], np.uint64)
        index[: len(chunks), 0] = np.cumsum(sizes) - sizes
        index[: len(chunks), 1] = sizes
        make_folder(path.parent)
        write_durably(path, b"".join([*chunks, _with_checksum(index.tobytes())]))

    def _read_encoded(self, path: Path, count: int) -> list[bytes]:
        """Return the first chunks of a shard as they stand there; a reader will check them."""
        data = path.read_bytes()
        index_bytes = 16 * (self._shard_rows // self._chunk_rows)
        index = data[-index_bytes - _CHECKSUM_BYTES : -_CHECKSUM_BYTES]
        if len(index) != index_bytes or _with_checksum(index) != data[-index_bytes - _CHECKSUM_BYTES :]:
            raise DataError(f"{path}: the shard is damaged (wrong checksum); restore the data set from a copy")
        places = np.frombuffer(index, "<u8").reshape(-1, 2)[:count].tolist()
        chunks = [data[offset : offset + size] for offset, size in places]
        if any(len(chunk) != size for chunk, (_, size) in zip(chunks, places, strict=True)):
            raise DataError(f"{path}: the shard is damaged (a chunk is missing); restore the data set from a copy")
        return chunks


def is_written_so(array: zarr.Array[Any]) -> bool:
    """Whether a :class:`ShardWriter` writes what the array's metadata say; older data sets may not."""
    return array.shards is not None and array.chunks[1:] == array.shards[1:] and array.compressors == COMPRESSORS


def _with_checksum(data: bytes) -> bytes:
    checksum: int = google_crc32c.value(data)
    return data + checksum.to_bytes(_CHECKSUM_BYTES, "little")
