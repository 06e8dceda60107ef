"""Reader of complete rosbag2 bags: SQLite files are read with their logs, messages in file order, with their counts."""

import shutil
import sqlite3
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from robo_rl.core import DataError, scratch_folder

from .bag_definitions import MessageTypes
from .bag_limits import Expansion, check_bag_files
from .data import data_files, library
from .notes import ImportNotes

_METADATA = "metadata.yaml"
_STORAGES = (".mcap", ".db3", ".mcap.zstd", ".db3.zstd")
_JOURNAL_MAGIC = bytes.fromhex("d9d505f920a163d7")
_LOGS = ("-wal", "-journal")
_REPAIR = "if the recorder was killed, mcap recover repairs its file (MCAP) and ros2 bag reindex creates metadata.yaml"


class Bag:
    """Open bag.

    Args:
        path: path of the bag, for error messages.
        reader: an open Reader of rosbags.
        store: message types that the bag does not define.
        logged: whether a log was merged into its files, which may then have more messages than the metadata states.
        incomplete: accept any number of messages that differs from the stated one, with a note.
        notes: notes of the import.

    Attributes:
        path: the argument.
        types: message types by topic.
    """

    def __init__(self, path: Path, reader: Any, store: Any, logged: bool, incomplete: bool, notes: ImportNotes) -> None:
        self.path = path
        self._reader, self._store = reader, store
        self._logged, self._incomplete, self._notes = logged, incomplete, notes
        self._storage = reader.storage
        self._files: Sequence[Any] = getattr(self._storage, "storages", [self._storage])
        self.types: dict[str, str] = {connection.topic: connection.msgtype for connection in reader.connections}

    def messages(self, topics: Sequence[str]) -> Iterator[tuple[str, int, Any]]:
        """Yield topic, time in the bag [ns] and message of all messages of ``topics``, in the order of the file.

        The order of the file shows jumps of the clock, which the times alone do not.

        Raises:
            DataError: if a message cannot be decoded or exceeds the limits, or, at the end, if the numbers of messages
                differ from those that the bag states.
        """
        counts = Counter[str]()
        connections = [connection for connection in self._reader.connections if connection.topic in topics]
        types = MessageTypes(connections, self._store, self.path)
        for topic, at_ns, data, kind in self._records(topics):
            counts[topic] += 1
            try:
                message = types.decode(data, kind)
            except DataError:
                raise
            except Exception as error:  # rosbags raises any kind of error on a damaged message or an unknown type
                raise DataError(
                    f"{self.path}: message {counts[topic]} of {topic} is not a {kind} as defined by the bag or else by "
                    f"format.distribution ({type(error).__name__}: {error})"
                ) from error
            yield topic, at_ns, message
        self._compare(counts, topics, self._reader.connections, "according to the metadata")
        files = [connection for file in self._files for connection in file.connections]
        self._compare(counts, topics, files, "according to the index of the file")

    def _records(self, topics: Sequence[str]) -> Iterator[tuple[str, int, bytes, str]]:
        unpack = Expansion(self.path).unpack
        contents: dict[Any, str] = {}
        packed = self._storage.metadata.compression_mode == "message"
        try:
            for file in self._files:
                connections = [connection for connection in file.connections if connection.topic in topics]
                if not connections:
                    continue
                scan = getattr(file, "messages_scan", partial(_rows, file))  # MCAP, SQLite
                checksum = count = 0
                for connection, at_ns, data in scan(connections):
                    checksum, count = zlib.crc32(data, zlib.crc32(b"%d" % at_ns, checksum)), count + 1
                    yield connection.topic, at_ns, unpack(data) if packed else data, connection.msgtype
                if count and (first := contents.setdefault((checksum, count), file.path.name)) != file.path.name:
                    raise DataError(
                        f"{self.path}: {first} and {file.path.name} hold the same {count} messages: one file was "
                        "copied over the other; copy the bag again"
                    )
        except DataError:
            raise
        except Exception as error:  # rosbags raises any kind of error on a damaged file
            raise DataError(
                f"{self.path} cannot be read to its end ({type(error).__name__}: {error}); {_REPAIR}"
            ) from error

    def _compare(self, counts: Counter[str], topics: Sequence[str], connections: Sequence[Any], source: str) -> None:
        stated = Counter[str]()
        for connection in connections:
            if connection.topic in topics:
                if not isinstance(connection.msgcount, int):
                    raise DataError(
                        f"{self.path}: {connection.topic} has {str(connection.msgcount)[:40]!r} messages {source}, "
                        f"expected a number; {_REPAIR}"
                    )
                stated[connection.topic] += connection.msgcount
        for topic in sorted(topic for topic in stated if stated[topic] != counts[topic]):
            text = f"{topic} has {counts[topic]} messages, but {stated[topic]} {source}"
            if not self._incomplete and not (self._logged and counts[topic] > stated[topic]):
                raise DataError(
                    f"{self.path}: {text}: a part is missing, or the metadata belongs to another bag. Copy the bag "
                    f"again; {_REPAIR}; or import the existing messages with format.incomplete=true"
                )
            self._notes.add("Topics whose number of messages differs from the stated one", f"{self.path}: {text}")


def _rows(file: Any, connections: Sequence[Any]) -> Iterator[tuple[Any, int, bytes]]:
    """Yield the messages of a SQLite file in the order in which they were written."""
    by_number = {connection.id: connection for connection in connections}
    places = ",".join("?" * len(by_number))
    query = f"SELECT topic_id, timestamp, data FROM messages WHERE topic_id IN ({places}) ORDER BY id"
    for number, at_ns, data in file.dbconn.execute(query, tuple(by_number)):
        yield by_number[number], at_ns, data


def find_bags(path: Path) -> list[Path]:
    """Return the bags at ``path``: ``path`` itself, or the bags in it at any depth.

    Raises:
        DataError: if there is no bag, or there are files of bags without a metadata.yaml.
    """
    if path.suffix == ".bag" and path.is_file():
        raise DataError(
            f"{path} is a bag of ROS 1: rosbags-convert --src {path} --dst {path.stem} converts it to ROS 2"
        )
    if path.is_file():
        return [path]
    bags = sorted(entry.parent for entry in data_files(path, f"**/{_METADATA}"))
    stray = [
        file
        for file in data_files(path, "**/*")
        if file.name.endswith(_STORAGES) and file.is_file() and file.parent not in bags
    ]
    if stray:
        raise DataError(
            f"{stray[0].parent} has files of a bag, such as {stray[0].name}, but no {_METADATA}; if the recorder was "
            "killed, ros2 bag reindex creates it. A single file can also be given as path. Move files that should not "
            "be imported to another folder"
        )
    if not bags:
        raise DataError(
            f"{path} is not a rosbag2 bag and contains none: expected a {_METADATA}; if the recorder was killed, ros2 "
            "bag reindex creates it"
        )
    return bags


@contextmanager
def open_bag(path: Path, store: Any, incomplete: bool, notes: ImportNotes) -> Iterator[Bag]:
    """Open a bag for reading; its folder is not changed.

    Args:
        path: path of the bag, or of its only file.
        store: message types that the bag does not define.
        incomplete: see :class:`Bag`.
        notes: notes of the import.

    Raises:
        DataError: if the bag is damaged, or has files that its metadata does not list.
    """
    make_reader = library("rosbags.rosbag2").Reader
    for file in path.iterdir() if path.is_dir() else ():
        if file.name.endswith((_METADATA, *_STORAGES)) and not file.is_file():
            raise DataError(f"{file} is not a regular file")  # opening a pipe could block forever
    with scratch_folder() as folder:
        merged = _merged(path, folder, notes)
        check_bag_files(merged)
        try:
            reader = make_reader(merged)
            reader.open()
        except Exception as error:  # rosbags raises any kind of error on a damaged file
            reason = " ".join(str(error).split())
            raise DataError(
                f"{path} is not a bag, or is damaged or unfinished ({reason}); if its recorder was killed, repair it "
                "with mcap recover, or with ros2 bag reindex (SQLite)"
            ) from error
        try:
            bag = Bag(path, reader, store, merged != path, incomplete, notes)
            if path.is_dir():
                _check_listed(path, reader.storage)
            yield bag
        finally:
            reader.close()


def _check_listed(path: Path, storage: Any) -> None:
    """Check that the metadata lists every file, since a killed recorder may have written files without listing them."""
    listed = [file.path.name.removesuffix(".zstd") for file in storage.storages]
    if repeated := sorted(name for name, count in Counter(listed).items() if count > 1):
        raise DataError(f"{path}: {_METADATA} lists {repeated[0]} twice; {_REPAIR}")
    for file in data_files(path, "*"):
        stem = file.name.removesuffix(".zstd")
        if file.name.endswith(_STORAGES) and stem not in listed:
            raise DataError(f"{path}: {file.name} is in the bag, but {_METADATA} does not list it; {_REPAIR}")


def _merged(path: Path, folder: Path, notes: ImportNotes) -> Path:
    """Return the path of a bag without logs: ``path``, or a copy in ``folder`` into which the logs were merged.

    SQLite keeps changes that are not yet in a file in ``FILE-wal``, and the data for undoing an unfinished change in
    ``FILE-journal``. rosbags reads neither.
    """
    files = [path] if path.is_file() else data_files(path, "*")
    logged = [file for file in files if file.suffix == ".db3" and any(_log_size(file, end) for end in _LOGS)]
    if not logged:
        return path
    copy = folder / path.name
    if path.is_dir():
        copy.mkdir()
        for file in files:
            if file not in logged and not file.name.endswith(("-wal", "-shm", "-journal")):
                (copy / file.name).symlink_to(file.absolute())
    for file in logged:
        target = copy / file.name if path.is_dir() else copy
        shutil.copyfile(file, target)
        for end in _LOGS:
            if _log_size(file, end):
                _refuse_other_files(Path(f"{file}{end}"))
                shutil.copyfile(f"{file}{end}", f"{target}{end}")
        try:
            database = sqlite3.connect(target)
            try:
                database.execute("PRAGMA journal_mode=DELETE").fetchall()
            finally:
                database.close()
        except sqlite3.Error as error:
            raise DataError(f"{file}: its log cannot be merged ({error}); the file or its log is damaged") from error
        notes.add("SQLite files with a log that the recorder had not merged; the log was read too", str(file))
    return copy


def _refuse_other_files(journal: Path) -> None:
    """Reject a rollback journal of several databases, since SQLite would delete the file that it names at its end.

    Raises:
        DataError: if it is such a journal.
    """
    with journal.open("rb") as file:
        file.seek(max(0, journal.stat().st_size - len(_JOURNAL_MAGIC)))
        if journal.stat().st_size > 2 * len(_JOURNAL_MAGIC) and file.read() == _JOURNAL_MAGIC:
            raise DataError(
                f"{journal}: the journal names another file, which no recorder does; remove it to import without it"
            )


def _log_size(file: Path, end: str) -> int:
    log = Path(f"{file}{end}")
    return log.stat().st_size if log.is_file() else 0
