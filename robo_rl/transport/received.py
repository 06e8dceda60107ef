"""What arrives, its large fields as views of the received bytes: no image is copied on its way to the replay."""

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
"""Numbers of steps, episodes and sessions end here: at 1 kHz that is 9,000 years."""
MOST_LOST = 10_000_000
"""Most steps that an actor may say to have lost at once."""

_CAMERAS = 16
_CAMERA = re.compile(r"[\w.:/ -]{1,64}")
_PROBLEM_CHARACTERS = 200
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


def are_plausible(first: int, sequences: Sequence[int], wanted: int) -> bool:
    """Return whether an actor may have come to these numbers: what it says to have lost is counted for ever.

    Args:
        first: smallest sequence number that it holds.
        sequences: of the records that it sends.
        wanted: next sequence number that the learner wants.
    """
    return max(first, *sequences, 0) <= LAST_NUMBER and first - wanted <= MOST_LOST


def trusted_statistics(statistics: Any) -> Any:
    """Return an actor's ``ActorStatistics`` with so much of what it says as may stand in logs and on pages.

    These are counts that a robot can reach, finite numbers of names as :class:`robo_rl.core.ResetController` gives
    them, 32 at most, a state that is one word, one line about pictures, and those of 16 cameras at most, and the newest
    messages for people, each on a line of bounded length.
    """
    for name in ("produced", "spooled", "refused_policies"):
        if getattr(statistics, name) > LAST_NUMBER:
            setattr(statistics, name, 0)
    if not 0 <= statistics.held_seconds < LAST_NUMBER:  # not a number is not
        statistics.held_seconds = 0.0
    statistics.picture_problem = plain_text(statistics.picture_problem, _PROBLEM_CHARACTERS)
    named = sorted(name for name in statistics.pictures if _CAMERA.fullmatch(name) is not None)
    pictures = {name: statistics.pictures[name] for name in named[:_CAMERAS]}
    statistics.pictures.clear()
    statistics.pictures.update(pictures)
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
    words = [plain_text(text, WORDS_CHARACTERS) for text in statistics.words[-WORDS_KEPT:]]
    del statistics.words[:]
    statistics.words.extend(words)
    return statistics
