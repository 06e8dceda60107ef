"""Bounded reading of files that others may have written, such as those of a run folder from another machine.

No function blocks on a named pipe or a device, reads more than a stated number of bytes, or follows a symbolic link
out of the named folder. Texts that expand or nest without bound are rejected before they are built.
"""

import contextlib
import errno
import itertools
import json
import os
import secrets
import stat
from collections import Counter
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from .errors import DataError

JSON_BYTES = 1 << 20
JSON_COLLECTIONS = 20_000
"""Most lists and objects in a JSON file: while a text is parsed, no other thread runs, not even that of a stop."""
YAML_BYTES = 256 << 10
DEPTH = 64
"""Deepest nesting of lists and objects that is accepted."""
YAML_NODES = 20_000
"""Most values of a YAML document, each counted as often as aliases repeat it."""
NUMBER_CHARACTERS = 1000
"""Most characters of a number in a YAML document: one of base 60, such as 1:30, takes time in their square."""
ENTRIES = 10_000
"""Most entries of a folder that are read."""

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFLNK: "a symbolic link, which is not followed",
}


class NoJsonError(DataError):
    """A text is not valid JSON, or is JSON of a kind that is not accepted."""


class ForeignFolder:
    """A folder that others may have filled. The path to it may contain links; links below it are not followed.

    Names of files are relative to the folder, with ``/`` between their parts. Every method raises FileNotFoundError
    if the file does not exist, another OSError if the system refuses access, and DataError if the file is not a regular
    file, too large, or not of the expected kind.

    Args:
        path: path of the folder, which need not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextlib.contextmanager
    def open(self, name: str) -> Iterator[int]:
        """Open a regular file for reading; yield its descriptor."""
        parts = PurePosixPath(name).parts
        with self._folder(parts[:-1]) as folder:
            file = _open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW, self.path / name, folder)
        with _closing(file):
            yield file

    def read_bytes(self, name: str, most: int) -> bytes:
        """Return the content of a file of at most ``most`` bytes."""
        with self.open(name) as file:
            return _read(file, most, self.path / name)

    def read_text(self, name: str, most: int) -> str:
        """Return the content of a file in UTF-8."""
        content = self.read_bytes(name, most)
        try:
            return content.decode()
        except UnicodeDecodeError as error:
            invalid = f"the byte {content[error.start]:#04x} at offset {error.start:,}"
            raise DataError(f"{self.path / name}: expected UTF-8, found {invalid}") from error

    def read_json(self, name: str, most: int = JSON_BYTES) -> Any:
        """Return the value in a JSON file, of few lists and objects; NaN and infinities are not accepted."""
        text = self.read_text(name, most)
        if text.count("[") + text.count("{") > JSON_COLLECTIONS:
            raise DataError(f"{self.path / name}: expected at most {JSON_COLLECTIONS:,} lists and objects, found more")
        return parse_json(text, str(self.path / name))

    def read_yaml(self, name: str, most: int = YAML_BYTES) -> str:
        """Return the text of a YAML file that :func:`check_yaml` accepts."""
        text = self.read_text(name, most)
        check_yaml(text, str(self.path / name))
        return text

    def files(self, name: str, suffix: str, most: int) -> dict[str, os.stat_result]:
        """Return up to ``most`` regular files in a folder whose names end in ``suffix``, by name, sorted."""
        statuses = {}
        with contextlib.suppress(OSError), self._folder(PurePosixPath(name).parts) as folder:
            with os.scandir(folder) as entries:
                names = [entry.name for entry in itertools.islice(entries, ENTRIES) if entry.name.endswith(suffix)]
            for each in sorted(names)[:most]:
                with contextlib.suppress(FileNotFoundError):
                    status = os.stat(each, dir_fd=folder, follow_symlinks=False)
                    if stat.S_ISREG(status.st_mode):
                        statuses[each] = status
        return statuses

    def replace(self, name: str, data: bytes) -> None:
        """Replace a file atomically, without opening an existing one. Its folder has to exist."""
        parts = PurePosixPath(name).parts
        partial = f".{parts[-1]}.{secrets.token_hex(8)}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with self._folder(parts[:-1]) as folder:
            try:
                with os.fdopen(os.open(partial, flags, 0o666, dir_fd=folder), "wb") as stream:
                    stream.write(data)
                os.replace(partial, parts[-1], src_dir_fd=folder, dst_dir_fd=folder)
            except OSError:
                with contextlib.suppress(OSError):
                    os.unlink(partial, dir_fd=folder)
                raise

    @contextlib.contextmanager
    def _folder(self, parts: tuple[str, ...]) -> Iterator[int]:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        folder = os.open(self.path, flags)
        try:
            for part in parts:
                inner = os.open(part, flags | os.O_NOFOLLOW, dir_fd=folder)
                os.close(folder)
                folder = inner
            yield folder
        finally:
            os.close(folder)


def read_bytes(path: Path, most: int) -> bytes:
    """Return the content of a regular file of at most ``most`` bytes; a link that the user named is followed.

    Raises:
        OSError: if it cannot be read.
        DataError: if it is not a regular file, or larger.
    """
    with _closing(_open(str(path), os.O_RDONLY, path)) as file:
        return _read(file, most, path)


def read_secret(path: Path, most: int = 4096) -> str:
    """Return the content of a file that only this user, or the system, can read.

    Raises:
        OSError: if it cannot be read.
        DataError: if others can read it, or it is not a regular file of UTF-8 text, or is larger than ``most`` bytes.
    """
    with _closing(_open(str(path), os.O_RDONLY, path)) as file:
        status = os.fstat(file)
        if stat.S_IMODE(status.st_mode) & 0o077:
            mode = f"{stat.S_IMODE(status.st_mode):04o}"
            raise DataError(f"{path} holds a secret that others can read (mode {mode}): chmod 600 {path}")
        if status.st_uid not in (os.getuid(), 0):
            raise DataError(f"{path} holds a secret and belongs to another user: create your own file")
        try:
            return _read(file, most, path).decode()
        except UnicodeDecodeError as error:
            raise DataError(f"{path}: expected text ({error})") from error


@contextlib.contextmanager
def open_regular(path: Path) -> Iterator[int]:
    """Open a regular file for reading, also through a link; yield its descriptor.

    Raises:
        OSError: if it cannot be opened.
        DataError: if it is not a regular file.
    """
    with _closing(_open(str(path), os.O_RDONLY, path)) as file:
        yield file


def parse_json(text: str | bytes, where: str, finite: bool = True, depth: int = DEPTH) -> Any:
    """Return the value in a JSON text; ``where`` names its origin in the error message.

    Raises:
        DataError: if it is not JSON, nests deeper than ``depth``, names a key of an object twice, contains half of a
            surrogate pair, or, with ``finite``, contains NaN or infinities by name.
    """
    try:
        value = json.loads(
            text, parse_constant=_refuse_constant if finite else None, object_pairs_hook=_object_of_pairs
        )
        _check_depth(value, depth)
        if not text.isascii() or (r"\ud" if isinstance(text, str) else rb"\ud") in text.lower():  # type: ignore[operator]
            check_characters(value)
    except (ValueError, RecursionError) as error:
        reason = f"nested deeper than {depth} levels" if isinstance(error, RecursionError) else str(error)
        raise NoJsonError(f"{where}: expected JSON ({reason})") from error
    return value


def check_yaml(text: str, where: str, most: int = YAML_NODES) -> int:
    """Reject a YAML text that is too large to build; only its events are read, and no value is built.

    Args:
        text: content of a file.
        where: origin of the text, for messages.
        most: largest number of values allowed.

    Returns:
        The number of values, each counted as often as an alias repeats it.

    Raises:
        DataError: if it is not YAML, nests deeper than :data:`DEPTH`, names a key of a mapping twice, has more than
            ``most`` values, or a number of more than :data:`NUMBER_CHARACTERS` characters.
    """
    try:
        return _count_yaml(text, most)
    except yaml.MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise DataError(f"{where}: expected YAML ({error.problem}{line})") from error
    except (yaml.YAMLError, ValueError) as error:
        raise DataError(f"{where}: expected YAML ({str(error).partition(chr(10))[0]})") from error


_RESOLVER = yaml.resolver.Resolver()


def _tag(scalar: yaml.ScalarEvent) -> str:
    return str(scalar.tag or _RESOLVER.resolve(yaml.ScalarNode, scalar.value, scalar.implicit))


class _OpenNode:
    """Collection of a YAML text whose end has not been read.

    Attributes:
        size: number of values in it so far.
    """

    def __init__(self, anchor: str | None, is_mapping: bool) -> None:
        self.anchor, self.size = anchor, 0
        self._keys: set[tuple[str, str]] = set()
        self._is_mapping, self._expects_key = is_mapping, is_mapping

    def add(self, size: int, scalar: yaml.ScalarEvent | None) -> None:
        """Count a value, which is a key or not; ``scalar`` is its event unless it is a collection or an alias.

        Raises:
            ValueError: if it is a key for the second time. A number and the same digits in quotes are different keys.
        """
        if self._expects_key and scalar is not None and scalar.value != "<<":
            key = _tag(scalar), scalar.value
            if key in self._keys:
                raise ValueError(f"the key {scalar.value!r:.80} occurs twice in a mapping")
            self._keys.add(key)
        self._expects_key = self._is_mapping and not self._expects_key
        self.size += size


def _count_yaml(text: str, most: int) -> int:
    """Return the number of values.

    Raises:
        ValueError: if the text nests too deeply, repeats a key, or has more than ``most`` values.
    """
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the Python loader takes seconds for some short texts
    sizes: dict[str, int] = {}
    open_nodes = [_OpenNode(None, False)]
    for event in yaml.parse(text, Loader=loader):
        size, scalar = 1, None
        if isinstance(event, yaml.CollectionStartEvent):
            open_nodes.append(_OpenNode(event.anchor, isinstance(event, yaml.MappingStartEvent)))
            if len(open_nodes) > DEPTH:
                raise ValueError(f"nested deeper than {DEPTH} levels")
            continue
        if isinstance(event, yaml.CollectionEndEvent):
            ended = open_nodes.pop()
            size = 1 + ended.size
            if ended.anchor:
                sizes[ended.anchor] = size
        elif isinstance(event, yaml.AliasEvent):
            if event.anchor not in sizes:
                raise ValueError(f"the alias {event.anchor!r} refers to nothing before it")
            size = sizes[event.anchor]
        elif isinstance(event, yaml.ScalarEvent):
            scalar = event
            if len(event.value) > NUMBER_CHARACTERS and _tag(event).endswith((":int", ":float")):
                raise ValueError(f"a number of more than {NUMBER_CHARACTERS:,} characters")
            if event.anchor:
                sizes[event.anchor] = 1
        else:
            continue
        open_nodes[-1].add(size, scalar)
        if open_nodes[-1].size > most:
            raise ValueError(f"more than {most:,} values, counting those that aliases repeat")
    return open_nodes[-1].size


def check_characters(value: Any) -> None:
    """Reject nested values with half of a surrogate pair in a text, which cannot be written to a file or page.

    Raises:
        ValueError: if there is one.
    """
    json.dumps(value, ensure_ascii=False, default=str, skipkeys=True).encode()


def _check_depth(value: Any, most: int) -> None:
    if isinstance(value, dict | list):
        if most == 0:
            raise RecursionError
        for each in value.values() if isinstance(value, dict) else value:
            if isinstance(each, dict | list):
                _check_depth(each, most - 1)


def _object_of_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        key, _ = Counter(key for key, _ in pairs).most_common(1)[0]
        raise ValueError(f"the key {key!r:.80} occurs twice in an object")
    return values


def _refuse_constant(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _open(name: str, flags: int, path: Path, folder: int | None = None) -> int:
    """Open a regular file without blocking; ``path`` is for messages."""
    try:
        file = os.open(name, flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.ELOOP and flags & os.O_NOFOLLOW:
            raise _irregular(path, stat.S_IFLNK) from error
        if error.errno == errno.ENXIO:
            raise _irregular(path, stat.S_IFSOCK) from error
        raise
    mode = os.fstat(file).st_mode
    if not stat.S_ISREG(mode):
        os.close(file)
        raise _irregular(path, stat.S_IFMT(mode))
    return file


def _irregular(path: Path, kind: int) -> DataError:
    return DataError(f"{path}: expected a regular file, found {_KINDS.get(kind, 'something else')}")


def _read(file: int, most: int, path: Path) -> bytes:
    """Read a file to its end; the file may grow meanwhile, and its reported size may be wrong."""
    size = os.fstat(file).st_size
    if size > most:  # before any memory is taken: ``most`` may be all of it
        raise DataError(f"{path}: expected at most {most:,} bytes, found more")
    with os.fdopen(file, "rb", closefd=False) as stream:
        data = stream.read(size + 1)  # a read allocates as much memory as it requests
        while size < len(data) <= most and (chunk := stream.read(min(len(data), most + 1 - len(data)))):
            data += chunk
    if len(data) > most:
        raise DataError(f"{path}: expected at most {most:,} bytes, found more")
    return data


@contextlib.contextmanager
def _closing(file: int) -> Iterator[int]:
    try:
        yield file
    finally:
        os.close(file)
