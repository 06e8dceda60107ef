"""Check of the chunks of HDF5 arrays, which HDF5 itself would decompress without a limit."""

import itertools
import math
from typing import Any

from isal import isal_zlib

from robo_rl.core import DataError

_CHUNK_BYTES = 2**26
"""Size that a chunk may always have [bytes], even if its array is smaller; h5py chooses at most one megabyte."""
_DEFLATE, _SHUFFLE, _FLETCHER32, _SZIP, _LZF = 1, 2, 3, 4, 32000
_CHECKSUM_BYTES = 4


def check_chunks(rows: Any, where: str) -> None:
    """Check that the decompressed chunks of an array have the stated size.

    HDF5 allocates a buffer of the size that the file states, and decompresses gzip data without a limit.

    Args:
        rows: array of an open file.
        where: name of the array, for error messages.

    Raises:
        DataError: if a chunk is too large for its array, decompresses to more than its size, or uses an unsupported
            compression.
    """
    if rows.dtype.kind not in "biufSO":
        raise DataError(f"{where} holds values of type {rows.dtype}, expected numbers")
    if rows.chunks is None:
        return
    size = math.prod(rows.chunks) * rows.dtype.itemsize
    if size > max(_CHUNK_BYTES, 4 * rows.size * rows.dtype.itemsize):
        raise DataError(
            f"{where} has chunks of {size} bytes, but the whole array has {rows.size * rows.dtype.itemsize}"
        )
    properties = rows.id.get_create_plist()
    filters = [properties.get_filter(index)[0] for index in range(properties.get_nfilters())]
    compressions = [number for number in filters if number not in (_SHUFFLE, _FLETCHER32)]
    if compressions not in ([], [_DEFLATE], [_LZF], [_SZIP]):
        raise DataError(
            f"{where} is compressed with the HDF5 filters {filters}; expected only one of gzip, lzf and szip"
        )
    if compressions != [_DEFLATE]:
        return
    position, has_checksum = filters.index(_DEFLATE), _FLETCHER32 in filters
    if has_checksum and filters.index(_FLETCHER32) < position:
        raise DataError(f"{where} has its checksum inside the compressed data, which is not supported")
    for offset in itertools.product(*map(range, (0,) * rows.ndim, rows.shape, rows.chunks)):
        skipped, data = rows.id.read_direct_chunk(offset)
        if skipped >> position & 1:
            continue
        end = len(data) - (_CHECKSUM_BYTES if has_checksum else 0)
        try:
            decompressed = len(isal_zlib.decompressobj().decompress(data[:end], size + 1))
        except Exception as error:  # type checkers do not accept the exception class of isal
            raise DataError(f"{where}: a chunk is damaged ({error})") from error
        if decompressed > size:
            raise DataError(f"{where}: a chunk expands to more than its {size} bytes; it is damaged or malicious")
