"""Analysis of the times of messages in a bag: jumps of the clock, gaps in topics, and the segments between them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Times = NDArray[np.int64]

_UNORDERED = 0.2
"""Fraction of messages with an earlier time than their predecessor above which the file is not ordered by time."""
_SWAPPED = 3
"""Number of consecutive messages of a topic that may be late without a jump of the clock."""
_EXAMINED = 100
"""Number of places that are examined for a jump of the clock. Further places are treated alike."""


@dataclass(frozen=True)
class Track:
    """Times of the messages of one topic, in the order of the file.

    Attributes:
        places: numbers of the messages in the file, ascending (n,).
        times: times in the bag [ns] (n,).
        stamps: stamps of their headers [ns], 0 if there is none (n,).
        max_age_ns: longest interval between messages that is not a gap [ns].
    """

    places: Times
    times: Times
    stamps: Times
    max_age_ns: int


@dataclass(frozen=True)
class Break:
    """Break between two messages of a topic, at which an episode ends.

    Attributes:
        track: number of the topic's track.
        at_ns: time in the bag of the last message before the break [ns].
        silence_ns: time until the next message [ns].
        stamps_back: whether the stamps in headers went back; otherwise the interval between messages was too long.
    """

    track: int
    at_ns: int
    silence_ns: int
    stamps_back: bool


def clock_jumps(tracks: Sequence[Track]) -> list[int]:
    """Return the places in the file, ascending, before which the recorder's clock jumped back.

    Messages of a file may also be in another order than their times for other reasons: a recorder with several threads
    swaps neighbours, and a converter writes whole parts in any order. Sorting corrects these cases. It does not correct
    a jump of the clock: it would interleave messages of different times, or leave a gap.
    """
    jumps = set()
    for track in tracks:
        steps = _steps_back(track)
        if not any(_is_jump(track, index) for index in steps[:_EXAMINED]):
            continue
        for index in steps:
            before, after = track.times[index], track.times[index + 1]
            middle = before - (before - after) // 2
            # Other topics show the same jump at other places: use the first message after it.
            place = track.places[index + 1]
            for neighbour in tracks:
                low, high = np.searchsorted(neighbour.places, [track.places[index], place], side="right")
                place = neighbour.places[low:high][neighbour.times[low:high] < middle].min(initial=place)
            jumps.add(int(place))
    return sorted(jumps)


def _steps_back(track: Track) -> NDArray[np.intp]:
    """Return the indices after which time goes back by much or for several messages; none if the file is unordered."""
    steps = np.diff(track.times)
    back = steps < 0
    if not back.any() or back.mean() > _UNORDERED:
        return np.empty(0, np.intp)
    ahead = np.append(track.times, np.full(_SWAPPED, track.times.min()))
    behind = np.all([ahead[1 + n :][: len(steps)] < track.times[:-1] for n in range(_SWAPPED)], axis=0)
    return np.flatnonzero(back & (behind | (steps < -track.max_age_ns)))


def _is_jump(track: Track, index: int) -> bool:
    """Return whether sorting would not correct the step back in time after ``index``."""
    order = np.argsort(track.times, kind="stable")
    seams = np.flatnonzero(np.diff(order > index))
    opened = np.diff(track.times[order])[seams] > track.max_age_ns
    mixed = (np.diff(seams) <= _SWAPPED).sum() >= _SWAPPED  # messages from before and after would alternate
    return bool(mixed or opened.any())


def runs(track: Track, jumps: Sequence[int]) -> list[NDArray[np.intp]]:
    """Return the indices of a track's messages between jumps of the clock, sorted by time within each run."""
    bounds = np.searchsorted(track.places, jumps)
    parts = np.split(np.arange(len(track.places)), bounds)
    return [part[np.argsort(track.times[part], kind="stable")] for part in parts]


def breaks(tracks: Sequence[Track], chosen: Sequence[NDArray[np.intp]]) -> list[Break]:
    """Return the breaks at which a topic exceeds its maximum age, or its stamps go back by more than that.

    Args:
        tracks: tracks of the topics.
        chosen: indices of the messages of each track, sorted by time.
    """
    result = []
    for number, (track, indices) in enumerate(zip(tracks, chosen, strict=True)):
        times, stamps = track.times[indices], track.stamps[indices]
        silent = np.diff(times) > track.max_age_ns
        back = (np.diff(stamps) < -track.max_age_ns) & (stamps[1:] != 0) & (stamps[:-1] != 0)
        for index in np.flatnonzero(silent | back):
            result.append(Break(number, int(times[index]), int(times[index + 1] - times[index]), bool(back[index])))
    return result


def segments(bounds: Sequence[tuple[int, int]], found: Sequence[Break]) -> list[tuple[int, int]]:
    """Return begin and end [ns] of the intervals in which all topics have had a message and none has a break.

    Args:
        bounds: times of the first and the last message of each topic [ns].
        found: breaks of the topics.
    """
    begin, end = max(first for first, _ in bounds), min(last for _, last in bounds)
    parts = []
    for gap in sorted(found, key=lambda gap: gap.at_ns):
        after = gap.at_ns + gap.silence_ns
        if begin <= min(gap.at_ns, end):
            parts.append((begin, min(gap.at_ns, end)))
        begin = max(begin, after)
    if begin <= end:
        parts.append((begin, end))
    return parts
