"""Log records of the process on /rosout, which ROS 2's tools read."""

import logging
from collections.abc import Callable
from typing import ClassVar

from ..api import Message
from ..message_types import RosbagsTypes
from .endpoints import DdsPublisher

LOG = "rcl_interfaces/msg/Log"
LOGGER = "robo_rl"
"""Name of the logger whose records, including those of its children, are published."""


class Rosout(logging.Handler):
    """Log handler that publishes records with ROS 2's levels: 10 debug, 20 info, 30 warning, 40 error, 50 fatal.

    If a process has several nodes, the oldest one publishes, because records do not state which node they concern.

    Args:
        publisher: publisher of /rosout.
        types: message definitions.
        name: fully qualified name of the node.
        now: returns the time of the node's clock.
    """

    _open: ClassVar[list["Rosout"]] = []

    def __init__(self, publisher: DdsPublisher, types: RosbagsTypes, name: str, now: Callable[[], Message]) -> None:
        super().__init__()
        self._publisher, self._types, self._now = publisher, types, now
        self._name = name.strip("/").replace("/", ".")  # the name that rcl gives a node's logger
        self._open.append(self)
        logging.getLogger(LOGGER).addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Publish a record, with its traceback if it has one."""
        if self._open[:1] != [self]:
            return
        # Python itself prints warnings that no handler receives. This handler must not change that.
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
        except Exception:  # logging.Handler requires that a log record does not end the caller
            self.handleError(record)

    def close(self) -> None:
        """Stop publishing."""
        logging.getLogger(LOGGER).removeHandler(self)
        self.acquire()  # waits for a thread that is publishing
        try:
            if self in self._open:
                self._open.remove(self)
        finally:
            self.release()
        super().close()


def _encodable(text: str) -> str:
    """Return ``text`` with characters replaced that UTF-8 cannot encode, which file names may contain."""
    return text.encode(errors="replace").decode()
