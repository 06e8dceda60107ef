"""Reader of Parquet files that compares sizes with the expected ones before it decompresses data.

The footer and the headers of pages state the numbers of rows, values and bytes. A file of a few kilobytes may claim,
and even hold, hundreds of millions of rows. Written from https://parquet.apache.org/docs/file-format and its Thrift
definition.
"""

import mmap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from robo_rl.core import DataError

from .data import check_packed, library

BATCH_BYTES = 2**27
"""Largest size of a batch of rows whose values are repeated from a dictionary [bytes]."""
MAX_BATCH = 64

_SLACK = 2**16
"""Size that a page or a column may have besides its values [bytes]: levels, a dictionary, alignment."""
_PAGE_BYTES = 2**28
"""Largest size of a page [bytes]; writers make pages of one megabyte."""
_ENCODINGS = (0, 2, 3, 5, 6, 8, 9)
"""Supported encodings: all of Parquet's except those in which one value can repeat the bytes of another at no cost."""
_DATA_PAGE, _DICTIONARY_PAGE, _DATA_PAGE_V2 = 0, 2, 3


@dataclass(frozen=True)
class ColumnLimit:
    """Expected size of a column.

    Attributes:
        values: most values in a row.
        bytes: most bytes of a value.
    """

    values: int = 1
    bytes: int = 8


class ParquetReader:
    """Open Parquet file whose sizes have been checked.

    Args:
        path: path of the file.
        rows: largest expected number of rows.
        columns: expected sizes of the columns to read, by name; other columns are ignored.
        optional: names of columns that may be missing.

    Raises:
        DataError: if the file is missing, damaged, or larger than expected.
    """

    def __init__(self, path: Path, rows: int, columns: Mapping[str, ColumnLimit], optional: Sequence[str] = ()) -> None:
        if not path.is_file():
            raise DataError(f"{path} is missing; the data is incomplete")
        self.path = path
        parquet, self._arrow_error = library("pyarrow.parquet"), library("pyarrow").ArrowException
        try:
            self._file = parquet.ParquetFile(
                path, thrift_string_size_limit=2**26, thrift_container_size_limit=2**20, pre_buffer=False
            )
        except (OSError, self._arrow_error) as error:
            raise DataError(f"{path} is damaged ({error})") from error
        self.names = [name for name in self._file.schema_arrow.names if name in columns]
        if missing := sorted(columns.keys() - {*self.names, *optional}):
            raise DataError(f"{path} has no column {', '.join(missing)}")
        if repeated := [name for name in self.names if self.names.count(name) > 1]:
            raise DataError(f"{path} has several columns {repeated[0]!r}; keep the one that is right")
        self.rows = int(self._file.metadata.num_rows)
        if self.rows > rows:
            raise DataError(
                f"{path} has {self.rows} rows, expected at most {rows} as the data set states: its metadata is "
                "incomplete or the file is of another data set"
            )
        self._largest_dictionary = 0
        check_packed(path.stat().st_size, self.rows * sum(8 * columns[name].values for name in self.names), path)
        try:
            with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
                self._check(data, columns)
        except (IndexError, ValueError) as error:
            raise DataError(f"{path} is damaged ({error})") from error

    def read(self) -> Any:
        """Return all rows of the columns, as an Arrow table."""
        return library("pyarrow").Table.from_batches(list(self.batches(self.rows or 1)), self._schema())

    def batches(self, size: int = MAX_BATCH) -> Iterator[Any]:
        """Yield all rows of the columns as Arrow record batches of at most ``size`` rows."""
        size = max(1, min(size, BATCH_BYTES // max(self._largest_dictionary, 1)))
        try:
            yield from self._file.iter_batches(batch_size=size, columns=self.names, use_threads=False)
        except (OSError, self._arrow_error) as error:
            raise DataError(f"{self.path} is damaged ({error})") from error

    def _schema(self) -> Any:
        schema = self._file.schema_arrow
        return library("pyarrow").schema([schema.field(name) for name in self.names])

    def _check(self, data: mmap.mmap, columns: Mapping[str, ColumnLimit]) -> None:
        metadata = self._file.metadata
        if metadata.num_row_groups > self.rows + 8:
            raise DataError(f"{self.path} has {metadata.num_row_groups} row groups for {self.rows} rows")
        for group in range(metadata.num_row_groups):
            row_group = metadata.row_group(group)
            if row_group.num_rows > self.rows:
                raise DataError(
                    f"{self.path} has a row group of {row_group.num_rows} rows, but the file has {self.rows}"
                )
            for index in range(row_group.num_columns):
                chunk = row_group.column(index)
                for name in self.names:  # names may contain dots, which also separate the parts of a path
                    if f"{chunk.path_in_schema}.".startswith(f"{name}."):
                        self._check_chunk(data, chunk, columns[name], int(row_group.num_rows))

    def _check_chunk(self, data: mmap.mmap, chunk: Any, limit: ColumnLimit, rows: int) -> None:
        """Compare the pages of a column chunk with the expected size of ``rows`` rows."""
        name, expected = chunk.path_in_schema, rows * limit.values
        begin = chunk.data_page_offset
        if chunk.has_dictionary_page and chunk.dictionary_page_offset is not None:
            begin = min(begin, chunk.dictionary_page_offset) or begin
        end = begin + chunk.total_compressed_size
        if not 4 <= begin <= end <= len(data):
            raise DataError(f"{self.path}: column {name!r} lies outside the file; it is damaged")
        values, size, position = 0, 0, begin
        while position < end:
            header = _Thrift(data, position, end)
            fields = header.struct()
            kind, uncompressed, compressed = (int(fields.get(number, -1)) for number in (1, 2, 3))
            page: dict[int, Any] = fields.get({_DATA_PAGE: 5, _DICTIONARY_PAGE: 7, _DATA_PAGE_V2: 8}.get(kind, 0), {})
            count = int(page.get(1, 0))
            encoding = page.get(4 if kind == _DATA_PAGE_V2 else 2, 0)
            if min(uncompressed, compressed, count) < 0 or encoding not in _ENCODINGS:
                raise DataError(f"{self.path}: a page of column {name!r} is damaged, or has an unsupported encoding")
            if kind == _DICTIONARY_PAGE:
                self._largest_dictionary = max(self._largest_dictionary, uncompressed)
            else:
                values += max(count, 1)
            size += uncompressed
            if uncompressed > _PAGE_BYTES:
                raise DataError(f"{self.path}: a page of column {name!r} has {uncompressed} bytes; it is damaged")
            position = header.position + compressed
            most = values * limit.bytes + 8 * values + 2 * _SLACK
            if kind != _DICTIONARY_PAGE and (
                values > max(expected, rows) + 8 or size > most + self._largest_dictionary
            ):
                raise DataError(
                    f"{self.path}: column {name!r} has {values} values in {size} bytes so far, expected at most "
                    f"{expected} values in {rows} rows, {limit.bytes} bytes each"
                )
            if kind == _DICTIONARY_PAGE and uncompressed > (expected + 1) * (limit.bytes + 4) + _SLACK:
                raise DataError(
                    f"{self.path}: column {name!r} has a dictionary of {uncompressed} bytes, expected at most "
                    f"{expected} values of {limit.bytes} bytes"
                )


class _Thrift:
    """Reader of structures in Thrift's compact protocol, which does not copy skipped data.

    Args:
        data: data with the structures.
        position: position of the first byte.
        end: position at which reading must stop.
    """

    def __init__(self, data: mmap.mmap, position: int, end: int) -> None:
        self._data, self.position, self._end = data, position, end

    def struct(self, depth: int = 0) -> dict[int, Any]:
        """Return the fields of a structure by number: integers, booleans and structures; other types are skipped."""
        if depth > 8:
            raise ValueError("a header is nested too deep")
        fields: dict[int, Any] = {}
        number = 0
        while byte := self._byte():
            number = number + (byte >> 4) if byte >> 4 else self._integer()
            fields[number] = self._value(byte & 15, depth)
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        if kind in (1, 2):  # the type itself is the value
            return kind == 1
        if kind == 3:
            return self._byte()
        if kind in (4, 5, 6):
            return self._integer()
        if kind == 7:
            return self._skip(8)
        if kind == 8:
            return self._skip(self._varint())
        if kind == 12:
            return self.struct(depth + 1)
        raise ValueError(f"a header has a field of type {kind}, which does not occur in pages")

    def _byte(self) -> int:
        if self.position >= self._end:
            raise ValueError("a header ends too early")
        byte = self._data[self.position]
        self.position += 1
        return byte

    def _varint(self) -> int:
        value = 0
        for shift in range(0, 70, 7):
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
        raise ValueError("a number in a header has too many bytes")

    def _integer(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)

    def _skip(self, count: int) -> None:
        self.position += count
        if self.position > self._end:
            raise ValueError("a header ends too early")
