"""A record that this machine stopped a robot's own controller, and how to release it."""

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from .durable import write_durably
from .emergency import default_file
from .errors import DataError
from .foreign import parse_json
from .latch import read_short

RECORD_BYTES = 4096


class OwnStop:
    """A record, beside the emergency stop, of a robot whose own controller was told to stop.

    The latch is in the robot, not on this machine: a service of the robot, named in the record, releases it.
    """

    def __init__(self, robot: str) -> None:
        self.file: Path = default_file().with_name(f"own_stop.{quote(robot, safe='')}")

    def note(self, facts: Mapping[str, str]) -> None:
        """Record that the robot's controller was stopped, with ``facts`` about the service that releases it."""
        with contextlib.suppress(OSError):  # the robot is stopped anyway
            self.file.parent.mkdir(parents=True, exist_ok=True)
            write_durably(self.file, json.dumps(dict(facts)).encode())

    def facts(self) -> dict[str, str] | None:
        """Return the facts given to :meth:`note`; None if the robot was not stopped."""
        text = read_short(self.file, RECORD_BYTES)
        if text is None:
            return None
        with contextlib.suppress(DataError):
            facts = parse_json(text, str(self.file))
            if isinstance(facts, dict):
                return {str(key): str(value) for key, value in facts.items()}
        return {}

    def clear(self) -> None:
        """Record that the robot may move again."""
        self.file.unlink(missing_ok=True)
