"""The stop of a robot's own controller: that it was pressed from here, and how it is taken back."""

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from .durable import write_durably
from .emergency import default_file
from .latch import read_short

RECORD_BYTES = 4096


class OwnStop:
    """A record, beside the emergency stop, of a robot that was told to stop by itself.

    The robot keeps that latch, not this machine: it is taken back by a service of the robot, which the record names.

    Args:
        robot: name of the robot.
    """

    def __init__(self, robot: str) -> None:
        self.file: Path = default_file().with_name(f"own_stop.{quote(robot, safe='')}")

    def note(self, facts: Mapping[str, str]) -> None:
        """Take down that the robot stopped by itself, and ``facts`` by which its service is reached."""
        with contextlib.suppress(OSError):  # the robot is stopped all the same
            self.file.parent.mkdir(parents=True, exist_ok=True)
            write_durably(self.file, json.dumps(dict(facts)).encode())

    def facts(self) -> dict[str, str] | None:
        """Return what :meth:`note` was given; None where the robot was not told to stop."""
        text = read_short(self.file, RECORD_BYTES)
        if text is None:
            return None
        with contextlib.suppress(ValueError):
            facts = json.loads(text)
            if isinstance(facts, dict):
                return {str(key): str(value) for key, value in facts.items()}
        return {}

    def clear(self) -> None:
        """Take note that the robot may move again."""
        self.file.unlink(missing_ok=True)
