"""Files of folders at secret addresses, for pages: read outside the event loop, in bounded portions, never executed."""

import http
import os
import re
import secrets
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from robo_rl.core import DataError, ForeignFolder, RoboRLError

from .reading import TURNS, Readers

PREFIX = "/files/"
WHOLE_BYTES = 8 << 20
"""Largest file that is sent as a whole."""
PORTION_BYTES = 512 << 10
"""Most bytes that are sent of a requested range; a browser then requests the rest."""
READ_SECONDS = 5.0
"""Longest wait for a folder."""
POLICY = (
    "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src 'self' data:; media-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Content-Security-Policy of these files: no script of theirs runs, and they have no access to the pages."""

_RANGE = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})", re.ASCII)


class FileAnswer(NamedTuple):
    """The answer to a request for a file: status, content, media type, and headers besides the usual ones."""

    status: http.HTTPStatus
    body: bytes
    kind: str = "text/plain"
    headers: tuple[tuple[str, str], ...] = ()


class FolderFiles:
    """Files of folders at addresses that nobody can guess, which pages receive after they have shown the token.

    Folders may belong to any user. Only files that ``kind_of`` names are sent, and no link in a folder is followed.

    Args:
        kind_of: returns the media type of a file by its path in the folder, with ``/`` between parts; None: not sent.
    """

    def __init__(self, kind_of: Callable[[str], str | None]) -> None:
        self._kind_of = kind_of
        self._readers = Readers(READ_SECONDS, TURNS)
        self._folders: dict[str, Path] = {}
        self._keys: dict[Path, str] = {}

    def address(self, folder: Path) -> str:
        """Return the address of a folder, which ends in a slash; that of a file has its quoted path appended."""
        key = self._keys.setdefault(folder, secrets.token_urlsafe(32))
        self._folders[key] = folder
        return f"{PREFIX}{key}/"

    async def answer(self, path: str, byte_range: str | None) -> FileAnswer:
        """Return the answer to a request.

        Args:
            path: quoted path of the request, which begins with :data:`PREFIX`.
            byte_range: header ``Range`` of the request; of several ranges, or of another unit, none is used.
        """
        key, _, quoted = path.removeprefix(PREFIX).partition("/")
        name, folder = unquote(quoted, errors="surrogateescape"), self._folders.get(key)
        kind = None if {"", ".", ".."} & set(name.split("/")) or "\0" in name else self._kind_of(name)
        if folder is None or kind is None:
            return FileAnswer(http.HTTPStatus.NOT_FOUND, b"no such file\n")
        try:
            reading = partial(_read, ForeignFolder(folder), name, kind, byte_range)
            answer: FileAnswer = await self._readers.call(f"files of {folder}", reading)
        except (RoboRLError, OSError) as error:  # a time-out is one
            return FileAnswer(http.HTTPStatus.NOT_FOUND, f"{error}\n".encode(errors="replace"))
        return answer


def _read(folder: ForeignFolder, name: str, kind: str, byte_range: str | None) -> FileAnswer:
    """Return a file or, if a range is requested, a portion of it; called in threads."""
    with folder.open(name) as file:
        size = os.fstat(file).st_size
        match = _RANGE.fullmatch(byte_range or "")
        if match is None or match[0] == "bytes=-":
            if size > WHOLE_BYTES:
                raise DataError(f"{folder.path / name} has more than {WHOLE_BYTES >> 20} MiB; open the file itself")
            return FileAnswer(http.HTTPStatus.OK, _bytes(file, 0, size), kind, (("Accept-Ranges", "bytes"),))
        start = int(match[1]) if match[1] else max(size - int(match[2]), 0)
        end = min(int(match[2]) + 1 if match[1] and match[2] else size, size)
        if start >= end:
            unknown = (("Content-Range", f"bytes */{size}"),)
            return FileAnswer(http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, b"", headers=unknown)
        body = _bytes(file, start, min(end - start, PORTION_BYTES))
        place = (("Content-Range", f"bytes {start}-{start + len(body) - 1}/{size}"), ("Accept-Ranges", "bytes"))
        return FileAnswer(http.HTTPStatus.PARTIAL_CONTENT, body, kind, place)


def _bytes(file: int, start: int, count: int) -> bytes:
    """Return ``count`` bytes of a file.

    Raises:
        DataError: if the file has become shorter.
    """
    parts = []
    while count and (part := os.pread(file, count, start)):
        parts.append(part)
        start, count = start + len(part), count - len(part)
    if count:
        raise DataError("the file has become shorter meanwhile")
    return b"".join(parts)
