"""Received messages, whose large fields are views of the received bytes, so that images are not copied."""

import itertools
import math
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from robo_rl.core import plain_text

from .framing import split_fields
from .messages_pb2 import ExchangeRequest, Record
from .views import WORDS_CHARACTERS, WORDS_KEPT

LAST_NUMBER = 1 << 48
"""Largest accepted number of a step or episode, which corresponds to 9,000 years at 1 kHz."""
MOST_SKIPPED = 1_000_000
"""Largest gap in an actor's session numbers. A gap arises if the learner's replay buffer was replaced."""
MOST_LOST = 10_000_000
"""Largest number of steps that an actor may report as lost at once."""

_CAMERAS = 16
_GEOMETRY_BYTES, _FRAME_BYTES = 1 << 20, 32 << 10
_CAMERA = re.compile(r"[\w.:/ -]{1,64}")
_PROBLEM_CHARACTERS = 200
_NO_IMAGES: Sequence[memoryview] = ()
_PRACTICE = re.compile("practice/[a-z_]{1,40}")
_PRACTICE_NAMES = 32
_STATE_CHARACTERS = 32


class ReceivedRecord(NamedTuple):
    """A ``Record`` without its images, and the images."""

    message: Any
    images: Sequence[memoryview]
    first_images: Sequence[memoryview]


class ReceivedExchange(NamedTuple):
    """An ``ExchangeRequest`` without its records, and the serialised records."""

    message: Any
    records: Sequence[memoryview]

    @property
    def actor(self) -> str:
        """Name of the sender that the message states."""
        return str(self.message.actor)


def read_record(data: bytes | memoryview, has_images: bool) -> ReceivedRecord:
    """Read a record of an environment with or without images.

    Raises:
        DecodeError: if ``data`` is not a record.
    """
    if not has_images:
        return ReceivedRecord(Record.FromString(data), _NO_IMAGES, _NO_IMAGES)
    remainder, (images, first_images) = split_fields(data, Record.IMAGES_FIELD_NUMBER, Record.FIRST_IMAGES_FIELD_NUMBER)
    return ReceivedRecord(Record.FromString(remainder), images, first_images)


def read_exchange(data: bytes) -> ReceivedExchange:
    """Read an exchange request.

    Raises:
        DecodeError: if ``data`` is not one.
    """
    remainder, (records,) = split_fields(data, ExchangeRequest.RECORDS_FIELD_NUMBER)
    return ReceivedExchange(ExchangeRequest.FromString(remainder), records)


def are_plausible(first: int, sequences: Sequence[int], wanted: int) -> bool:
    """Return whether an actor can have reached these sequence numbers, since lost steps are counted permanently.

    Args:
        first: smallest sequence number that the actor holds.
        sequences: sequence numbers of the records that it sends.
        wanted: next sequence number that the learner wants.
    """
    return max(first, *sequences, 0) <= LAST_NUMBER and first - wanted <= MOST_LOST


def trusted_statistics(statistics: Any) -> Any:
    """Reduce an actor's ``ActorStatistics``, in place, to values that are safe to log and to display.

    These are counts that a robot can reach; at most 32 finite numbers with the names that
    :class:`robo_rl.core.ResetController` uses; a state of one word; one line about pictures, and the pictures of at
    most 16 cameras; a scene of bounded size; and the newest messages for the operator, each a line of bounded length.
    """
    for name in ("produced", "spooled", "refused_policies"):
        if getattr(statistics, name) > LAST_NUMBER:
            setattr(statistics, name, 0)
    if not 0 <= statistics.held_seconds < LAST_NUMBER:  # also replaces NaN
        statistics.held_seconds = 0.0
    statistics.picture_problem = plain_text(statistics.picture_problem, _PROBLEM_CHARACTERS)
    cameras = sorted(name for name in statistics.pictures if _CAMERA.fullmatch(name) is not None)
    pictures = {name: statistics.pictures[name] for name in cameras[:_CAMERAS]}
    statistics.pictures.clear()
    statistics.pictures.update(pictures)
    for name, most in (("scene_geometry", _GEOMETRY_BYTES), ("scene_frame", _FRAME_BYTES)):
        if len(getattr(statistics, name)) > most:
            statistics.ClearField(name)
    numbers = (
        (name, value)
        for name, value in statistics.practice.items()
        if _PRACTICE.fullmatch(name) is not None and math.isfinite(value)
    )
    practice = dict(itertools.islice(numbers, _PRACTICE_NAMES))
    statistics.practice.clear()
    statistics.practice.update(practice)
    if not statistics.practice_state.isidentifier() or len(statistics.practice_state) > _STATE_CHARACTERS:
        statistics.practice_state = ""
    words = [plain_text(text, WORDS_CHARACTERS) for text in statistics.words[-WORDS_KEPT:]]
    del statistics.words[:]
    statistics.words.extend(words)
    return statistics
