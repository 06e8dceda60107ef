"""Limits on the decompressed size of an array's files, checked before Zarr reads them.

Zarr trusts the chunk sizes in the array's metadata and the decompressed size in each chunk, and reads a missing file as
zeros. A data set of a few kilobytes could therefore claim any number of rows.
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
    """Checks the files of one array, each file once.

    Args:
        array: the array as its metadata describes it.
        folder: folder of the array.

    Raises:
        DataError: if its chunks are larger than those that robo-rl writes, or compressed with another codec.
    """

    def __init__(self, array: zarr.Array[Any], folder: Path) -> None:
        self._array, self._folder = array, folder
        self._checked: set[int] = set()
        file_shape = array.shards or array.chunks
        self._chunk_rows, self._file_rows = array.chunks[0], file_shape[0]
        row = tuple(max(side, 1) for side in array.shape[1:])
        counts = self._chunk_rows, self._file_rows
        possible = 1 <= min(counts) <= max(counts) <= max(CHUNK_ROWS, SHARD_ROWS)
        if not possible or array.chunks[1:] != row or file_shape[1:] != row or self._file_rows % self._chunk_rows:
            raise DataError(
                f"{folder}: expected chunks of at most {CHUNK_ROWS} whole rows, found {array.chunks} in files of "
                f"{file_shape}; the array is damaged, or not part of a data set of robo-rl"
            )
        kinds = [type(codec) for codec in array.compressors if not isinstance(codec, Crc32cCodec)]
        if array.filters or kinds not in ([ZstdCodec], [BloscCodec]):
            names = ", ".join(type(codec).__name__ for codec in (*array.filters, *array.compressors)) or "nothing"
            raise DataError(f"{folder}: expected rows compressed with Zstandard or Blosc, found {names}")
        self._size_of = zstd_size if kinds == [ZstdCodec] else blosc_size
        self._file_bytes = largest_file(array)
        self._chunk_bytes = int(np.prod(array.chunks)) * array.dtype.itemsize

    def check(self, start: int, stop: int) -> None:
        """Check the files that hold rows ``start`` to ``stop``.

        Raises:
            DataError: if a file is missing, truncated, not a regular file or too large, or if a chunk states another
                size than the array's.
        """
        if 0 in self._array.shape[1:]:
            return
        for number in range(start // self._file_rows, -(-stop // self._file_rows)):
            if number in self._checked:
                continue
            coordinates = number, *(0 for _ in self._array.shape[1:])
            path = self._folder / self._array.metadata.encode_chunk_key(coordinates)
            try:
                for size in self._sizes(path):
                    if size != self._chunk_bytes:
                        raise DataError(
                            f"{path}: a chunk declares a size of {size} bytes, expected {self._chunk_bytes}"
                        )
            except OSError as error:
                raise DataError(f"{path} is missing or cut short ({error.strerror})") from error
            self._checked.add(number)

    def _sizes(self, path: Path) -> list[int]:
        """Return the decompressed sizes that the chunks of a file state."""
        with open_regular(path) as file, os.fdopen(file, "rb", closefd=False) as stream:
            if (file_size := os.fstat(file).st_size) > self._file_bytes:
                raise DataError(f"{path}: expected at most {self._file_bytes:,} bytes, found {file_size:,}")
            if self._array.shards is None:
                return [self._size_of(stream.read(_HEADER_BYTES))]
            index_bytes = 16 * (self._file_rows // self._chunk_rows)
            stream.seek(-index_bytes - _CHECKSUM_BYTES, 2)
            index = np.frombuffer(stream.read(index_bytes), "<u8").reshape(-1, 2)
            sizes = []
            for offset, size in index.tolist():
                if offset != _ABSENT:
                    stream.seek(min(offset, 2**62))
                    sizes.append(self._size_of(stream.read(min(size, _HEADER_BYTES))))
            return sizes
