"""Cache of answers on disk, so that each question is paid for only once."""

import hashlib
import json
from pathlib import Path

from robo_rl.core import ConfigError, DataError, parse_json, read_bytes, user_folder, write_durably

MOST_BYTES = 16 << 20


class AnswerCache:
    """Answers by the SHA-256 of the whole request, in one JSON file each. Threads and processes may share a folder.

    Args:
        folder: created if it is missing; None for ``robo_rl/answers`` in ``XDG_CACHE_HOME``, by default ``~/.cache``.

    Raises:
        ConfigError: if the folder cannot be created, or is None and there is no home folder or replacement for it.
    """

    def __init__(self, folder: str | None) -> None:
        self._folder = Path(folder or user_folder("cache", "answers", " or endpoint.cache") / "answers")
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"endpoint.cache: {self._folder} cannot be made: {error.strerror}") from error

    def find(self, request: bytes) -> str | None:
        """Return the answer to ``request``; None if it is unknown or its file is damaged."""
        try:
            answer = parse_json(read_bytes(self._file(request), MOST_BYTES), "an answer")["answer"]
        except (DataError, OSError, ValueError, KeyError, TypeError):
            return None
        return answer if isinstance(answer, str) else None

    def keep(self, request: bytes, answer: str) -> None:
        """Store an answer completely, or not at all.

        Raises:
            ConfigError: if the file cannot be written.
        """
        file = self._file(request)
        try:
            write_durably(file, json.dumps({"answer": answer}).encode())
        except OSError as error:
            raise ConfigError(f"endpoint.cache: {file} cannot be written: {error.strerror}") from error

    def _file(self, request: bytes) -> Path:
        return self._folder / f"{hashlib.sha256(request).hexdigest()}.json"
