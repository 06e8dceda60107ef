"""What arrives, its large fields as views of the received bytes: no image is copied on its way to the replay."""

import itertools
import math
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from .framing import split_fields
from .messages_pb2 import ExchangeRequest, Record

_NO_IMAGES: Sequence[memoryview] = ()
_PRACTICE = re.compile("practice/[a-z_]{1,40}")
_PRACTICE_NAMES = 32
_STATE_CHARACTERS = 32


class ReceivedRecord(NamedTuple):
    """A ``Record`` without its images, and these."""

    message: Any
    images: Sequence[memoryview]
    first_images: Sequence[memoryview]


class ReceivedExchange(NamedTuple):
    """An ``ExchangeRequest`` without its records, and these, each serialised."""

    message: Any
    records: Sequence[memoryview]

    @property
    def actor(self) -> str:
        """Who says that it sends this."""
        return str(self.message.actor)


def read_record(data: bytes | memoryview, has_images: bool) -> ReceivedRecord:
    """Read a record of an environment with or without images.

    Raises:
        DecodeError: if it is none.
    """
    if not has_images:
        return ReceivedRecord(Record.FromString(data), _NO_IMAGES, _NO_IMAGES)
    rest, (images, first_images) = split_fields(data, Record.IMAGES_FIELD_NUMBER, Record.FIRST_IMAGES_FIELD_NUMBER)
    return ReceivedRecord(Record.FromString(rest), images, first_images)


def read_exchange(data: bytes) -> ReceivedExchange:
    """Read a request.

    Raises:
        DecodeError: if it is none.
    """
    rest, (records,) = split_fields(data, ExchangeRequest.RECORDS_FIELD_NUMBER)
    return ReceivedExchange(ExchangeRequest.FromString(rest), records)


def trusted_statistics(statistics: Any) -> Any:
    """Return an actor's ``ActorStatistics`` with so much of what it says in names of its own as may stand in logs.

    These are finite numbers of names as :class:`robo_rl.core.ResetController` gives them, 32 at most, and a state that
    is one word.
    """
    known = (
        (name, value)
        for name, value in statistics.practice.items()
        if _PRACTICE.fullmatch(name) is not None and math.isfinite(value)
    )
    practice = dict(itertools.islice(known, _PRACTICE_NAMES))
    statistics.practice.clear()
    statistics.practice.update(practice)
    if not statistics.practice_state.isidentifier() or len(statistics.practice_state) > _STATE_CHARACTERS:
        statistics.practice_state = ""
    return statistics
