"""Log records of the process on /rosout, from which ROS 2's tools read logs."""

import logging
from collections.abc import Callable
from typing import ClassVar

from ..api import Message
from ..message_types import RosbagsTypes
from .endpoints import DdsPublisher

LOG = "rcl_interfaces/msg/Log"
LOGGER = "robo_rl"
"""Name of the logger whose records, and those below it, are published."""


class Rosout(logging.Handler):
    """Publishes log records. Their levels are those of ROS 2: 10 debug, 20 info, 30 warning, 40 error, 50 fatal.

    Of several nodes in a process the oldest one publishes: it is not known which of them a record is about.

    Args:
        publisher: of /rosout.
        types: message definitions.
        name: of the node, fully qualified.
        now: returns the time of the node's clock.
    """

    _open: ClassVar[list["Rosout"]] = []

    def __init__(self, publisher: DdsPublisher, types: RosbagsTypes, name: str, now: Callable[[], Message]) -> None:
        super().__init__()
        self._publisher, self._types, self._now = publisher, types, now
        self._name = name.strip("/").replace("/", ".")  # as rcl names a node's logger
        self._open.append(self)
        logging.getLogger(LOGGER).addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Publish a record, with the traceback where it has one."""
        if self._open[:1] != [self]:
            return
        # Python prints warnings by itself where nobody handles them; this handler is not meant to change that.
        handlers = *logging.getLogger(LOGGER).handlers, *logging.getLogger().handlers
        printing = logging.lastResort if all(isinstance(handler, Rosout) for handler in handlers) else None
        if printing is not None and record.levelno >= printing.level:
            printing.handle(record)
        try:
            message = self._types.make(
                LOG,
                stamp=self._now(),
                level=min(max(record.levelno, logging.DEBUG), logging.CRITICAL),
                name=f"{self._name}.{record.name.removeprefix(LOGGER).strip('.')}".strip("."),
                msg=_encodable(self.format(record)),
                file=_encodable(record.pathname),
                function=record.funcName or "",
                line=record.lineno,
            )
            self._publisher.publish(message)
        except Exception:
            self.handleError(record)

    def close(self) -> None:
        """Publish no more."""
        logging.getLogger(LOGGER).removeHandler(self)
        self.acquire()  # who is publishing has finished then
        try:
            if self in self._open:
                self._open.remove(self)
        finally:
            self.release()
        super().close()


def _encodable(text: str) -> str:
    """Return ``text`` without what UTF-8 has no bytes for, as names of files may have it."""
    return text.encode(errors="replace").decode()
