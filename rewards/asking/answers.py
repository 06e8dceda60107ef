"""Answers on disk: what was asked once is not paid for twice."""

import hashlib
import json
import tempfile
from pathlib import Path

from robo_rl.core import ConfigError, DataError, parse_json, read_bytes, user_folder

MOST_BYTES = 16 << 20


class AnswerCache:
    """Answers by the SHA-256 of all that was asked, one JSON file each. Threads and processes may share a folder.

    Args:
        folder: made where it is missing; None: ``robo_rl/answers`` in ``XDG_CACHE_HOME``, by default ``~/.cache``.

    Raises:
        ConfigError: if nothing can be written there, or there is no home folder and nothing in place of it.
    """

    def __init__(self, folder: str | None) -> None:
        self._folder = Path(folder or user_folder("cache", "answers", " or endpoint.cache") / "answers")
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"endpoint.cache: {self._folder} cannot be made: {error.strerror}") from error

    def find(self, asked: bytes) -> str | None:
        """Return the answer to what was ``asked``, or None: unknown, or its file is damaged."""
        try:
            answer = parse_json(read_bytes(self._file(asked), MOST_BYTES), "an answer")["answer"]
        except (DataError, OSError, ValueError, KeyError, TypeError):
            return None
        return answer if isinstance(answer, str) else None

    def keep(self, asked: bytes, answer: str) -> None:
        """Store an answer whole, or not at all.

        Raises:
            ConfigError: if the disk does not take it.
        """
        file = self._file(asked)
        try:
            with tempfile.NamedTemporaryFile("w", dir=self._folder, suffix=".partial", delete=False) as partial:
                json.dump({"answer": answer}, partial)
            Path(partial.name).replace(file)
        except OSError as error:
            raise ConfigError(f"endpoint.cache: {file} cannot be written: {error.strerror}") from error

    def _file(self, asked: bytes) -> Path:
        return self._folder / f"{hashlib.sha256(asked).hexdigest()}.json"
