"""What a node's process logs, on the topic that ROS 2's tools read logs from."""

import logging
from collections.abc import Callable

from ..api import Message
from ..message_types import RosbagsTypes
from .endpoints import DdsPublisher

LOG = "rcl_interfaces/msg/Log"
LOGGER = "robo_rl"
"""Of whose records, and of those below it, are published."""


class Rosout(logging.Handler):
    """Publishes log records. Their levels are those of ROS 2: 10 debug, 20 info, 30 warning, 40 error, 50 fatal.

    Args:
        publisher: of /rosout.
        types: message definitions.
        name: of the node, fully qualified.
        now: returns the time of the node's clock.
    """

    def __init__(self, publisher: DdsPublisher, types: RosbagsTypes, name: str, now: Callable[[], Message]) -> None:
        super().__init__()
        self._publisher, self._types, self._now = publisher, types, now
        self._name = name.strip("/").replace("/", ".")  # as rcl names a node's logger
        logging.getLogger(LOGGER).addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Publish a record, with the traceback where it has one."""
        try:
            message = self._types.make(
                LOG,
                stamp=self._now(),
                level=min(max(record.levelno, logging.DEBUG), logging.CRITICAL),
                name=self._name,
                msg=self.format(record),
                file=record.pathname,
                function=record.funcName or "",
                line=record.lineno,
            )
            self._publisher.publish(message)
        except Exception:
            self.handleError(record)

    def close(self) -> None:
        """Publish no more."""
        logging.getLogger(LOGGER).removeHandler(self)
        super().close()
