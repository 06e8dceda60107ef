"""Chunks of HDF5 arrays, which are expanded within their size before HDF5 does so without a limit."""

import itertools
import math
from typing import Any

from isal import isal_zlib

from robo_rl.core import DataError

_CHUNK_BYTES = 2**26
"""Bytes that a chunk may have although its array is smaller; h5py's own choice is at most one megabyte."""
_DEFLATE, _SHUFFLE, _FLETCHER32, _SZIP, _LZF = 1, 2, 3, 4, 32000
_CHECKSUM_BYTES = 4


def check_chunks(rows: Any, where: str) -> None:
    """Check that the chunks of an array hold what they claim.

    HDF5 gives a chunk a buffer of the size that the file claims, and expands gzip for as long as it goes on.

    Args:
        rows: array of an open file.
        where: for messages.

    Raises:
        DataError: if a chunk is too large for its array, expands to more than its size, or is packed in a way that
            is not read.
    """
    if rows.dtype.kind not in "biufSO":
        raise DataError(f"{where} holds values of type {rows.dtype}; numbers are read")
    if rows.chunks is None:
        return
    size = math.prod(rows.chunks) * rows.dtype.itemsize
    if size > max(_CHUNK_BYTES, 4 * rows.size * rows.dtype.itemsize):
        raise DataError(f"{where} has chunks of {size} bytes, the whole array has {rows.size * rows.dtype.itemsize}")
    plan = rows.id.get_create_plist()
    filters = [plan.get_filter(index)[0] for index in range(plan.get_nfilters())]
    packing = [each for each in filters if each not in (_SHUFFLE, _FLETCHER32)]
    if packing not in ([], [_DEFLATE], [_LZF], [_SZIP]):
        raise DataError(f"{where} is packed by the filters {filters} of HDF5; gzip, lzf or szip alone are read")
    if packing != [_DEFLATE]:
        return
    place, checksum = filters.index(_DEFLATE), _FLETCHER32 in filters
    if checksum and filters.index(_FLETCHER32) < place:
        raise DataError(f"{where} has its checksum within what is packed, which is not read")
    for offset in itertools.product(*map(range, (0,) * rows.ndim, rows.shape, rows.chunks)):
        skipped, data = rows.id.read_direct_chunk(offset)
        if skipped >> place & 1:
            continue
        end = len(data) - (_CHECKSUM_BYTES if checksum else 0)
        try:
            found = len(isal_zlib.decompressobj().decompress(data[:end], size + 1))
        except Exception as error:  # that of isal is none to type checkers
            raise DataError(f"{where}: a chunk is damaged ({error})") from error
        if found > size:
            raise DataError(f"{where}: a chunk of {size} bytes expands to more; it is damaged or made to harm")
