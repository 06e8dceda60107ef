"""Writer of rows into the files of a Zarr array.

Zarr itself would write the same files, but takes two to four times the processor time, because each chunk is several
tasks of its event loop. Reading uses Zarr. A file is either one chunk or a shard: several chunks, encoded separately,
and an index of their positions (https://zarr-specs.readthedocs.io/en/latest/v3/codecs/sharding-indexed/).
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import zarr
from numcodecs.blosc import BITSHUFFLE, Blosc
from numcodecs.zstd import Zstd
from numpy.typing import NDArray
from zarr.codecs import BloscCodec, Crc32cCodec, ZstdCodec

from robo_rl.core import DataError, read_bytes, write_durably

from .disk import make_folder

Rows = NDArray[Any] | Sequence[NDArray[Any]]

CHUNK_ROWS = 1024
COMPRESSORS = (ZstdCodec(level=3, checksum=True),)
_ZSTD = Zstd(level=3, checksum=True)

# Random frames and windows of images are read fastest with few frames per chunk. Shards keep the number of files low.
IMAGE_CHUNK_ROWS = 10
SHARD_ROWS = 200
# The noise of images is in the low bits. LZ4 on shuffled bits compresses it better than Zstandard on bytes, and is ten
# times faster. Blosc has no checksum, so Crc32cCodec adds one that is checked before data is decoded.
IMAGE_COMPRESSORS = BloscCodec(typesize=1, cname="lz4", clevel=5, shuffle="bitshuffle"), Crc32cCodec()
_BLOSC = Blosc("lz4", clevel=5, shuffle=BITSHUFFLE, typesize=1)

_ABSENT = np.iinfo(np.uint64).max
_CHECKSUM_BYTES = 4


class ChunkWriter:
    """Writes rows of one array. Each file is replaced atomically, after its content has been flushed to disk.

    Args:
        array: an array for which :func:`is_written_so` is true.
        folder: folder of the array.
    """

    def __init__(self, array: zarr.Array[Any], folder: Path) -> None:
        self._array = array
        self._folder = folder
        self._is_sharded = array.shards is not None
        (self._chunk_rows, *_), (self._file_rows, *_) = array.chunks, array.shards or array.chunks

    def write(self, start: int, rows: Rows) -> None:
        """Store ``rows`` from row ``start`` on; the array must be long enough. Existing rows after them may be lost.

        Raises:
            OSError: if the files cannot be written.
            DataError: if the file that the first row belongs to is damaged.
        """
        stop = start + len(rows)
        for first in range(start - start % self._file_rows, stop, self._file_rows):
            begin, end = max(first, start), min(first + self._file_rows, stop)
            self._write_file(first, begin, rows[begin - start : end - start])

    def _write_file(self, first: int, begin: int, rows: Rows) -> None:
        coordinates = first // self._file_rows, *(0 for _ in self._array.shape[1:])
        path = self._folder / self._array.metadata.encode_chunk_key(coordinates)
        whole_chunks, head = divmod(begin - first, self._chunk_rows)
        chunks = self._read(path, whole_chunks + (head > 0)) if begin > first else []
        chunk = np.zeros(self._array.chunks, self._array.dtype)
        if head:
            chunk[:head] = self._decode(path, chunks.pop())[:head]
        for position in range(-head, len(rows), self._chunk_rows):
            part = rows[max(position, 0) : position + self._chunk_rows]
            offset = max(-position, 0)
            if isinstance(part, np.ndarray):
                chunk[offset : offset + len(part)] = part
            else:
                np.stack(part, out=chunk[offset : offset + len(part)])
            chunk[offset + len(part) :] = 0
            chunks.append(self._encode(chunk))
        make_folder(path.parent)
        write_durably(path, b"".join([*chunks, self._index(chunks)]) if self._is_sharded else chunks[0])

    def _read(self, path: Path, count: int) -> list[bytes]:
        """Return the first ``count`` chunks of a file, encoded. Their checksums are checked on decoding."""
        try:
            data = read_bytes(path, largest_file(self._array))
        except FileNotFoundError as error:
            raise _damaged(path, "it is missing") from error
        if not self._is_sharded:
            return [data]
        index_bytes = 16 * (self._file_rows // self._chunk_rows)
        index = data[-index_bytes - _CHECKSUM_BYTES : -_CHECKSUM_BYTES]
        if len(index) != index_bytes or _with_checksum(index) != data[-index_bytes - _CHECKSUM_BYTES :]:
            raise _damaged(path, "wrong checksum of its index")
        entries = np.frombuffer(index, "<u8").reshape(-1, 2)[:count].tolist()
        chunks = [data[offset : offset + size] for offset, size in entries]
        if any(len(chunk) != size for chunk, (_, size) in zip(chunks, entries, strict=True)):
            raise _damaged(path, "a chunk is missing")
        return chunks

    def _index(self, chunks: Sequence[bytes]) -> bytes:
        sizes = np.array([len(chunk) for chunk in chunks], np.uint64)
        index = np.full((self._file_rows // self._chunk_rows, 2), _ABSENT, "<u8")
        index[: len(chunks), 0] = np.cumsum(sizes) - sizes
        index[: len(chunks), 1] = sizes
        return _with_checksum(index.tobytes())

    def _encode(self, chunk: NDArray[Any]) -> bytes:
        data: bytes = _with_checksum(_BLOSC.encode(chunk)) if self._is_sharded else _ZSTD.encode(chunk)
        return data

    def _decode(self, path: Path, data: bytes) -> NDArray[Any]:
        if self._is_sharded and data != _with_checksum(data[:-_CHECKSUM_BYTES]):
            raise _damaged(path, "wrong checksum")
        try:
            decoded = _BLOSC.decode(data[:-_CHECKSUM_BYTES]) if self._is_sharded else _ZSTD.decode(data)
            return np.frombuffer(decoded, self._array.dtype).reshape(self._array.chunks)
        except (RuntimeError, ValueError) as error:
            raise _damaged(path, str(error)) from error


def largest_file(array: zarr.Array[Any]) -> int:
    """Return an upper bound on the bytes of a file of ``array``: incompressible rows with their headers and index."""
    rows = (array.shards or array.chunks)[0]
    return 2 * rows * int(np.prod(array.shape[1:])) * array.dtype.itemsize + (1 << 16)


def is_written_so(array: zarr.Array[Any]) -> bool:
    """Return whether :class:`ChunkWriter` writes the layout of ``array``; false for old data sets and empty rows."""
    file_shape, compressors = array.shards or array.chunks, COMPRESSORS if array.shards is None else IMAGE_COMPRESSORS
    return array.compressors == compressors and array.chunks[1:] == file_shape[1:] == array.shape[1:]


def _with_checksum(data: bytes) -> bytes:
    checksum: int = google_crc32c.value(data)
    return data + checksum.to_bytes(_CHECKSUM_BYTES, "little")


def _damaged(path: Path, reason: str) -> DataError:
    return DataError(f"{path} is damaged ({reason}); restore the data set from a copy")
