"""Limits on the decompressed size and the descriptions of a bag's files.

The limits are checked before rosbags reads the files, because it has none itself. Written from https://mcap.dev/spec
and https://www.sqlite.org/lang.html.
"""

import mmap
import sqlite3
import struct
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Any

import yaml

from robo_rl.core import DataError, check_yaml, read_bytes, scratch_folder

from .data import data_files, library

FREE_BYTES = 2**28
"""Decompressed bytes of a bag that are always allowed."""
RATIO = 200
"""Additional decompressed bytes that are allowed per compressed byte; sensor data has a ratio of about ten."""

_METADATA_BYTES = 2**19
_YAML_VALUES = 20_000
"""Largest number of YAML values in ``metadata.yaml``, or in the QoS profiles of a file; a profile has 27. rosbags takes
50 to 80 us for each, and a bag is opened three times. A bag of 150 topics in 1000 files, the largest number that it can
open, has 20 000.
"""
_TOPIC_VALUES = 10
"""Number of values that a topic counts as, without its profiles."""
_DEFINITIONS = 4000
"""Largest number of message definitions in an SQLite file."""
_ENTRIES = 1000
"""Largest number of tables and indices in an SQLite file."""
_SUFFIXES = {"mcap": ".mcap", "sqlite3": ".db3"}
_PIECE = 2**20
_FOOTER, _SCHEMA, _CHANNEL, _CHUNK, _CHUNK_INDEX, _STATISTICS, _SUMMARY_OFFSET = 2, 3, 4, 6, 8, 0x0B, 0x0E
_FOOTER_BYTES = 37
_MAGIC = b"\x89MCAP0\r\n"


class Expansion:
    """Counts the bytes of decompressed data, and rejects more than the compressed size can explain.

    Args:
        place: name of the bag or file, for error messages.
    """

    def __init__(self, place: object) -> None:
        self._place = place
        self._packed = self._expanded = 0

    def unpack(self, data: bytes) -> bytes:
        """Return the content of Zstandard frames.

        Raises:
            DataError: if it exceeds the limits.
        """
        self.add_packed(len(data))
        return b"".join(self.pieces(data, "zstd"))

    def add_packed(self, size: int) -> None:
        """Count ``size`` compressed bytes."""
        self._packed += size

    def pieces(self, data: bytes | mmap.mmap, kind: str) -> Iterator[bytes]:
        """Yield the decompressed ``data`` in pieces; ``kind`` is ``zstd`` or ``lz4``."""
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
                        f"{self._place}: {self._packed} compressed bytes expand to more than {self._expanded}: it is "
                        "damaged or malicious. If it is neither, decompress it first (mcap compress --compression "
                        "none, zstd -d)"
                    )
                yield part
            begin -= len(expander.unused_data or b"")


def check_bag_files(path: Path) -> None:
    """Check the files of a bag, or the single file ``path``.

    Raises:
        DataError: if a file would expand beyond the limits, has too many descriptions, or contains computed data.
    """
    for file in data_files(path, "*") if path.is_dir() else [path]:
        if not file.is_file():
            continue
        try:
            if file.name.endswith(".zstd"):
                _check_packed_file(file)
            elif file.suffix in _CHECKS:
                _CHECKS[file.suffix](file, file)
            elif file.name == "metadata.yaml":
                _check_metadata(file)
        except (DataError, OSError):
            raise
        except Exception as error:  # the decompression libraries raise many kinds of errors
            raise DataError(f"{file} is damaged ({type(error).__name__}: {error})") from error


def _check_packed_file(file: Path) -> None:
    """Check the decompressed size of a file, and its content, as rosbags decompresses it and reads the result."""
    with (
        file.open("rb") as stream,
        mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data,
        scratch_folder() as folder,
    ):
        expansion, target = Expansion(file), Path(folder, file.stem)
        expansion.add_packed(len(data))
        with target.open("wb") as expanded:
            for piece in expansion.pieces(data, "zstd"):
                expanded.write(piece)
        if target.suffix in _CHECKS:
            _CHECKS[target.suffix](target, file)


# --- descriptions ----------------------------------------------------------------------------------------------------


class _Profiles:
    """Counts the YAML values in the QoS profiles of topics, and rejects too many.

    Args:
        place: the file, for error messages.
        values: number of other YAML values in the file.
    """

    def __init__(self, place: Path, values: int = 0) -> None:
        self._place, self._values = place, values

    def add(self, text: str) -> None:
        """Count a topic whose profiles are ``text``."""
        where = f"{self._place}: offered_qos_profiles"
        self._values += _TOPIC_VALUES + check_yaml(text, where, _YAML_VALUES)
        if self._values > _YAML_VALUES:
            raise DataError(f"{where}: more than {_YAML_VALUES} values in all topics and the metadata together")


def _check_metadata(file: Path) -> None:
    """Check the size of the metadata, and that the suffix of each listed file is the one of the bag's storage."""
    try:
        text = read_bytes(file, _METADATA_BYTES).decode()
        profiles = _Profiles(file, check_yaml(text, str(file), _YAML_VALUES))
        about = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))["rosbag2_bagfile_information"]
        for topic in about["topics_with_message_count"]:
            if isinstance(qos := topic["topic_metadata"].get("offered_qos_profiles"), str):
                profiles.add(qos)
        packed = str(about.get("compression_mode", "")).lower() == "file"
        if (storage := about["storage_identifier"]) not in _SUFFIXES:
            raise DataError(f"{file} names the storage {storage!r}; only {' and '.join(_SUFFIXES)} are supported")
        suffix = f"{_SUFFIXES[storage]}{'.zstd' if packed else ''}"
        for name in about["relative_file_paths"]:
            if not PurePath(name).name.endswith(suffix):
                kind = f"{storage}{', compressed by file' if packed else ''}"
                raise DataError(
                    f"{file} lists {name!r} in a bag of storage {kind}; expected names that end in {suffix}"
                )
    except (KeyError, TypeError, AttributeError, ValueError, yaml.YAMLError) as error:
        raise DataError(f"{file} is damaged ({type(error).__name__}: {error})") from error


# --- MCAP ------------------------------------------------------------------------------------------------------------


def _check_mcap(file: Path, place: Path) -> None:
    """Compare the stated and the actual size of each chunk, and count the descriptions of topics that rosbags reads."""
    with file.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
        if data[: len(_MAGIC)] != _MAGIC:
            return  # rosbags reports that it is not MCAP
        expansion, profiles, indexed = Expansion(place), _Profiles(place), _check_summary(data, _Profiles(place))
        for kind, begin, end in _records(data, len(_MAGIC)):
            if kind == _CHANNEL and not indexed:
                _add_channel(data[begin:end], profiles)
            elif kind == _CHUNK and end - begin >= 40:
                content = _check_chunk(place, data[begin:end], expansion, keep=not indexed)
                for inner, first, last in _records(content, 0):
                    if inner == _CHANNEL:
                        _add_channel(content[first:last], profiles)


def _records(data: mmap.mmap | bytes, position: int) -> Iterator[tuple[int, int, int]]:
    """Yield kind, begin and end of the complete records; the last one may be incomplete after a recorder was killed."""
    while position + 9 <= len(data):
        kind, size = struct.unpack_from("<BQ", data, position)
        begin, position = position + 9, position + 9 + size
        if position > len(data):
            return  # rosbags reports the error
        yield kind, begin, position


def _check_summary(data: mmap.mmap, profiles: _Profiles) -> bool:
    """Count the topics in the summary; return whether rosbags uses it instead of reading each chunk."""
    begin = len(data) - _FOOTER_BYTES
    if begin < 0 or data[begin] != _FOOTER or not (summary := struct.unpack_from("<Q", data, begin + 9)[0]):
        return False
    kinds = set()
    for kind, first, last in _records(data, summary):
        if kind in (_FOOTER, _SUMMARY_OFFSET):
            break
        kinds.add(kind)
        if kind == _CHANNEL:
            _add_channel(data[first:last], profiles)
    return _SCHEMA in kinds and bool(kinds & {_STATISTICS, _CHUNK_INDEX})


def _add_channel(record: bytes, profiles: _Profiles) -> None:
    """Count the topic that ``record`` describes: two numbers, name, encoding, and a map of strings."""
    texts, position = [], 4
    for _ in range(2):
        text, position = _text(record, position)
    end = position + 4 + struct.unpack_from("<I", record, position)[0]
    position += 4
    while position < end:
        text, position = _text(record, position)
        texts.append(text)
    metadata = dict(zip(texts[::2], texts[1::2], strict=False))
    profiles.add(metadata.get(b"offered_qos_profiles", b"").decode())


def _text(record: bytes, position: int) -> tuple[bytes, int]:
    begin = position + 4
    end = begin + struct.unpack_from("<I", record, position)[0]
    return record[begin:end], end


def _check_chunk(place: Path, chunk: bytes, expansion: Expansion, keep: bool) -> bytes:
    """Compare the stated and the actual size of a chunk; return its content if ``keep``, else an empty string."""
    stated, _, length = struct.unpack_from("<QII", chunk, 16)
    kind = chunk[32 : 32 + length].decode()
    packed = chunk[40 + length :]
    if not kind:
        return packed if keep else b""
    expansion.add_packed(len(packed))
    size, content = 0, bytearray()
    for piece in expansion.pieces(packed, kind):
        size += len(piece)
        if size > stated:
            break
        if keep:
            content += piece
    if size != stated:
        raise DataError(f"{place}: a chunk declares {stated} bytes but expands to {size} or more; it is damaged")
    return bytes(content)


# --- SQLite ----------------------------------------------------------------------------------------------------------


def _check_sqlite(file: Path, place: Path) -> None:
    """Check that the database holds only plain tables, without views, triggers and generated columns."""
    database = sqlite3.connect(f"file:{file.absolute()}?mode=ro&immutable=1", uri=True)
    try:
        entries = database.execute(f"SELECT type, name, sql FROM sqlite_master LIMIT {_ENTRIES + 1}").fetchall()
        if len(entries) > _ENTRIES:
            raise DataError(f"{place} has more than {_ENTRIES} tables and indices; no recorder writes so many")
        for kind, name, text in entries:
            virtual = kind == "table" and "VIRTUAL" in str(text).upper()[:40]
            if kind in ("view", "trigger") or virtual:
                raise DataError(
                    f"{place}: {name!r} is a {'virtual table' if virtual else kind}, which no recorder writes"
                )
            columns = database.execute("SELECT name, hidden FROM pragma_table_xinfo(?)", (name,)).fetchall()
            if computed := [column for column, hidden in columns if hidden]:
                raise DataError(f"{place}: column {computed[0]!r} of {name!r} is generated, which no recorder writes")
            if name.lower() == "topics":
                _check_topics(database, place, {column.lower() for column, _ in columns})
            elif name.lower() == "message_definitions":
                (count,) = database.execute("SELECT count(*) FROM message_definitions").fetchone()
                if count > _DEFINITIONS:
                    raise DataError(f"{place} has {count} message definitions; at most {_DEFINITIONS} are supported")
    except sqlite3.Error as error:
        raise DataError(f"{place} is not a SQLite file, or is damaged ({error})") from error
    finally:
        database.close()


def _check_topics(database: sqlite3.Connection, place: Path, columns: set[str]) -> None:
    """Check that the numbers of topics, by which rosbags joins messages, are unique; count the topics' profiles."""
    count, numbers = database.execute("SELECT count(*), count(DISTINCT id) FROM topics").fetchone()
    if count != numbers:
        raise DataError(
            f"{place} has {count} topics but only {numbers} different topic numbers, which no recorder writes"
        )
    profiles = _Profiles(place)
    column = "offered_qos_profiles" if "offered_qos_profiles" in columns else "''"
    for (text,) in database.execute(f"SELECT substr({column}, 1, {_METADATA_BYTES + 1}) FROM topics"):
        if len(qos := str(text or "")) > _METADATA_BYTES:
            raise DataError(f"{place}: offered_qos_profiles has more than {_METADATA_BYTES} characters")
        profiles.add(qos)


_CHECKS = {".mcap": _check_mcap, ".db3": _check_sqlite}
"""Checks by suffix of a file; their arguments are the file, and its name for error messages."""


def _expander(kind: str) -> Any:
    if kind == "zstd":
        return library("rosbags.rosbag2.reader").zstd.ZstdDecompressor()
    if kind == "lz4":
        return library("lz4.frame").LZ4FrameDecompressor()
    raise ValueError(f"compression {kind!r} is unknown")
