"""Limits on what the files of an array may expand to, checked before Zarr reads them.

Zarr takes sizes of chunks from the array's metadata, sizes of what a chunk holds from the chunk, and a file that is
missing for zeros: a data set of a few kilobytes may claim any number of rows.
"""

import os
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from zarr.codecs import BloscCodec, Crc32cCodec, ZstdCodec

from robo_rl.core import DataError, blosc_size, open_regular, zstd_size

from .chunks import CHUNK_ROWS, SHARD_ROWS, largest_file

_HEADER_BYTES = 18
_CHECKSUM_BYTES = 4
_ABSENT = np.iinfo(np.uint64).max


class ChunkLimits:
    """Checks the files of one array, each once.

    Args:
        array: as its metadata describes it.
        folder: of the array.

    Raises:
        DataError: if it has larger chunks than robo-rl writes, or is packed in another way.
    """

    def __init__(self, array: zarr.Array[Any], folder: Path) -> None:
        self._array, self._folder = array, folder
        self._checked: set[int] = set()
        file_shape = array.shards or array.chunks
        self._chunk_rows, self._file_rows = array.chunks[0], file_shape[0]
        row = tuple(max(side, 1) for side in array.shape[1:])
        too_many = max(self._chunk_rows, self._file_rows) > max(CHUNK_ROWS, SHARD_ROWS)
        if array.chunks[1:] != row or file_shape[1:] != row or too_many or self._file_rows % self._chunk_rows:
            raise DataError(
                f"{folder}: expected chunks of at most {CHUNK_ROWS} whole rows, found {array.chunks} in files of "
                f"{file_shape}; it is no array of a data set of robo-rl, or damaged"
            )
        kinds = [type(each) for each in array.compressors if not isinstance(each, Crc32cCodec)]
        if array.filters or kinds not in ([ZstdCodec], [BloscCodec]):
            names = ", ".join(type(each).__name__ for each in (*array.filters, *array.compressors)) or "nothing"
            raise DataError(f"{folder}: expected rows packed by Zstandard or Blosc, found {names}")
        self._size_of = zstd_size if kinds == [ZstdCodec] else blosc_size
        self._file_bytes = largest_file(array)
        self._chunk_bytes = int(np.prod(array.chunks)) * array.dtype.itemsize

    def check(self, start: int, stop: int) -> None:
        """Check the files that rows ``start`` to ``stop`` are in.

        Raises:
            DataError: if one is missing, is no regular file, or holds more than its chunks.
        """
        if 0 in self._array.shape[1:]:
            return
        for number in range(start // self._file_rows, -(-stop // self._file_rows)):
            if number in self._checked:
                continue
            place = number, *(0 for _ in self._array.shape[1:])
            path = self._folder / self._array.metadata.encode_chunk_key(place)
            try:
                for size in self._sizes(path):
                    if size != self._chunk_bytes:
                        raise DataError(
                            f"{path}: a chunk states that it holds {size} bytes, expected are {self._chunk_bytes}"
                        )
            except OSError as error:
                raise DataError(f"{path} is missing or cut short ({error.strerror})") from error
            self._checked.add(number)

    def _sizes(self, path: Path) -> list[int]:
        """Return the sizes that the chunks of a file state."""
        with open_regular(path) as file, os.fdopen(file, "rb", closefd=False) as stream:
            if (found := os.fstat(file).st_size) > self._file_bytes:
                raise DataError(f"{path}: expected at most {self._file_bytes:,} bytes, found {found:,}")
            if self._array.shards is None:
                return [self._size_of(stream.read(_HEADER_BYTES))]
            index_bytes = 16 * (self._file_rows // self._chunk_rows)
            stream.seek(-index_bytes - _CHECKSUM_BYTES, 2)
            places = np.frombuffer(stream.read(index_bytes), "<u8").reshape(-1, 2)
            sizes = []
            for offset, size in places.tolist():
                if offset != _ABSENT:
                    stream.seek(min(offset, 2**62))
                    sizes.append(self._size_of(stream.read(min(size, _HEADER_BYTES))))
            return sizes
