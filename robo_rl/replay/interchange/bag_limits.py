"""Limits on what the files of a bag may expand to: checked before rosbags, which has none, reads them.

Written from https://mcap.dev/spec and https://www.sqlite.org/lang.html.
"""

import mmap
import sqlite3
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from robo_rl.core import DataError

from .data import library

FREE_BYTES = 2**28
"""Bytes that the packed parts of a bag may expand to, whatever their size."""
RATIO = 200
"""Bytes more, for each packed byte: sensors' data comes to about ten."""

_METADATA_BYTES = 2**24
_SCHEMA_BYTES = 2**20
"""Bytes of a message definition; rosbags takes seconds for a megabyte of it."""
_PIECE = 2**20
_SCHEMA, _CHUNK = 0x03, 0x06
_MAGIC = b"\x89MCAP0\r\n"


class Expansion:
    """Counts what packed parts expand to, and refuses more than their size explains.

    Args:
        place: the bag or file, for messages.
    """

    def __init__(self, place: object) -> None:
        self._place = place
        self._packed = self._expanded = 0

    def unpack(self, data: bytes) -> bytes:
        """Return the content of Zstandard frames.

        Raises:
            DataError: if they expand beyond the limits.
        """
        self.add_packed(len(data))
        return b"".join(self.pieces(data, "zstd"))

    def add_packed(self, size: int) -> None:
        """Count ``size`` packed bytes."""
        self._packed += size

    def pieces(self, data: bytes | mmap.mmap, kind: str) -> Iterator[bytes]:
        """Yield what ``data`` expands to, a part at a time; ``kind`` is ``zstd`` or ``lz4``."""
        begin = 0
        while begin < len(data):
            expander = _expander(kind)
            while not expander.eof:
                piece = data[begin : begin + _PIECE] if expander.needs_input else b""
                begin += len(piece)
                if expander.needs_input and not piece:
                    raise ValueError("it ends too early")
                part = expander.decompress(piece, max_length=_PIECE)
                self._expanded += len(part)
                if self._expanded > FREE_BYTES + RATIO * self._packed:
                    raise DataError(
                        f"{self._place}: {self._packed} packed bytes expand to over {self._expanded}: it is damaged "
                        "or made to harm. If it is neither, unpack it first (mcap compress --compression none, zstd -d)"
                    )
                yield part
            begin -= len(expander.unused_data or b"")


def check_bag_files(path: Path) -> None:
    """Check the files of a bag, or the one file ``path``.

    Raises:
        DataError: if one would expand beyond the limits, or computes what it holds.
    """
    for file in sorted(path.iterdir()) if path.is_dir() else [path]:
        if not file.is_file():
            continue
        try:
            if file.name.endswith(".zstd"):
                _check_packed_file(file)
            elif file.suffix == ".mcap":
                _check_mcap(file)
            elif file.suffix == ".db3":
                _check_sqlite(file)
            elif file.name == "metadata.yaml" and file.stat().st_size > _METADATA_BYTES:
                raise DataError(f"{file} has {file.stat().st_size} bytes, expected are at most {_METADATA_BYTES}")
        except (DataError, OSError):
            raise
        except Exception as error:  # of the libraries that unpack
            raise DataError(f"{file} is damaged ({type(error).__name__}: {error})") from error


def _check_packed_file(file: Path) -> None:
    with file.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
        expansion = Expansion(file)
        expansion.add_packed(len(data))
        for _ in expansion.pieces(data, "zstd"):
            pass


def _check_mcap(file: Path) -> None:
    """Compare the size that each chunk states with what it expands to."""
    with file.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
        if data[: len(_MAGIC)] != _MAGIC:
            return  # rosbags says what it is instead
        expansion, position = Expansion(file), len(_MAGIC)
        while position + 9 <= len(data):
            kind, size = struct.unpack_from("<BQ", data, position)
            begin = position + 9
            position = begin + size
            if position > len(data):
                return  # a recorder was killed; rosbags says so
            if kind == _SCHEMA and size > _SCHEMA_BYTES:
                raise DataError(f"{file}: a message definition of {size} bytes; at most {_SCHEMA_BYTES} are read")
            if kind == _CHUNK and size >= 40:
                _check_chunk(file, data[begin:position], expansion)


def _check_chunk(file: Path, chunk: bytes, expansion: Expansion) -> None:
    stated, _, length = struct.unpack_from("<QII", chunk, 16)
    kind = chunk[32 : 32 + length].decode()
    packed = chunk[40 + length :]
    if not kind:
        return
    expansion.add_packed(len(packed))
    found = 0
    for piece in expansion.pieces(packed, kind):
        found += len(piece)
        if found > stated:
            break
    if found != stated:
        raise DataError(f"{file}: a chunk states {stated} bytes and holds {found} or more; it is damaged")


def _check_sqlite(file: Path) -> None:
    """Check that the database holds plain tables: what views, triggers and generated columns give is computed."""
    database = sqlite3.connect(f"file:{file.absolute()}?mode=ro&immutable=1", uri=True)
    try:
        for kind, name, text in database.execute("SELECT type, name, sql FROM sqlite_master LIMIT 1000"):
            virtual = kind == "table" and "VIRTUAL" in str(text).upper()[:40]
            if kind in ("view", "trigger") or virtual:
                raise DataError(
                    f"{file}: {name!r} is a {'virtual table' if virtual else kind}, which no recorder writes"
                )
            columns = database.execute("SELECT name, hidden FROM pragma_table_xinfo(?)", (name,)).fetchall()
            if computed := [column for column, hidden in columns if hidden]:
                raise DataError(f"{file}: column {computed[0]!r} of {name!r} is computed, which no recorder writes")
    except sqlite3.Error as error:
        raise DataError(f"{file} is no SQLite file, or damaged ({error})") from error
    finally:
        database.close()


def _expander(kind: str) -> Any:
    if kind == "zstd":
        return library("rosbags.rosbag2.reader").zstd.ZstdDecompressor()
    if kind == "lz4":
        return library("lz4.frame").LZ4FrameDecompressor()
    raise ValueError(f"compression {kind!r} is unknown")
