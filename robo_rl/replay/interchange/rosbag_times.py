"""Times of messages in a bag: where the clock was put back, where topics fall silent, and what lies between."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Times = NDArray[np.int64]

_UNORDERED = 0.2
"""More messages than this share that lie before the one before them: the file is in no order of time at all."""
_SWAPPED = 3
"""Messages of a topic that may come too late together without the clock having been put back."""
_EXAMINED = 100
"""Places at which it is examined why time goes back; where there are more, they are all taken for the same."""


@dataclass(frozen=True)
class Track:
    """When the messages of one topic came, in the order of the file.

    Attributes:
        places: numbers of the messages in the file, rising (n,).
        times: in the bag [ns] (n,).
        stamps: of their headers [ns], 0 where there is none (n,).
        max_age_ns: longest silence that is no gap.
    """

    places: Times
    times: Times
    stamps: Times
    max_age_ns: int


@dataclass(frozen=True)
class Break:
    """A place between two messages of a topic that no episode crosses.

    Attributes:
        track: number of the topic's track.
        at_ns: time of the last message before it, in the bag.
        silence_ns: time until the next message.
        stamps_back: whether the stamps in headers went back there, rather than time going on without messages.
    """

    track: int
    at_ns: int
    silence_ns: int
    stamps_back: bool


def clock_jumps(tracks: Sequence[Track]) -> list[int]:
    """Return the places in the file before which the clock of the recorder was put back, rising.

    Messages may also lie in a file in another order than that of their times: a recorder of several threads swaps
    neighbours, and a converter writes whole parts in any order. Sorting puts these right. After a clock was put back it
    does not: messages of different moments would then stand between each other, or a gap would open.
    """
    jumps = set()
    for track in tracks:
        steps = _steps_back(track)
        if not any(_is_jump(track, index) for index in steps[:_EXAMINED]):
            continue
        for index in steps:
            before, after = track.times[index], track.times[index + 1]
            middle = before - (before - after) // 2
            # Other topics show the same jump at other places: the first message after it counts.
            place = track.places[index + 1]
            for other in tracks:
                low, high = np.searchsorted(other.places, [track.places[index], place], side="right")
                place = other.places[low:high][other.times[low:high] < middle].min(initial=place)
            jumps.add(int(place))
    return sorted(jumps)


def _steps_back(track: Track) -> NDArray[np.intp]:
    """Return the indices after which time goes back by much or for several messages; none in a file without order."""
    steps = np.diff(track.times)
    back = steps < 0
    if not back.any() or back.mean() > _UNORDERED:
        return np.empty(0, np.intp)
    ahead = np.append(track.times, np.full(_SWAPPED, track.times.min()))
    behind = np.all([ahead[1 + n :][: len(steps)] < track.times[:-1] for n in range(_SWAPPED)], axis=0)
    return np.flatnonzero(back & (behind | (steps < -track.max_age_ns)))


def _is_jump(track: Track, index: int) -> bool:
    """Tell whether sorting would not put right that time goes back after ``index``."""
    order = np.argsort(track.times, kind="stable")
    seams = np.flatnonzero(np.diff(order > index))
    opened = np.diff(track.times[order])[seams] > track.max_age_ns
    mixed = (np.diff(seams) <= _SWAPPED).sum() >= _SWAPPED  # single messages of before and after stand in turn
    return bool(mixed or opened.any())


def runs(track: Track, jumps: Sequence[int]) -> list[NDArray[np.intp]]:
    """Return the indices of a track's messages between jumps of the clock, sorted by time within each run."""
    bounds = np.searchsorted(track.places, jumps)
    parts = np.split(np.arange(len(track.places)), bounds)
    return [part[np.argsort(track.times[part], kind="stable")] for part in parts]


def breaks(tracks: Sequence[Track], chosen: Sequence[NDArray[np.intp]]) -> list[Break]:
    """Return where topics are silent for longer than they may be, or their stamps go back by more than that.

    Args:
        tracks: of the topics.
        chosen: indices of the messages of each, by time.
    """
    found = []
    for number, (track, indices) in enumerate(zip(tracks, chosen, strict=True)):
        times, stamps = track.times[indices], track.stamps[indices]
        silent = np.diff(times) > track.max_age_ns
        back = (np.diff(stamps) < -track.max_age_ns) & (stamps[1:] != 0) & (stamps[:-1] != 0)
        for index in np.flatnonzero(silent | back):
            found.append(Break(number, int(times[index]), int(times[index + 1] - times[index]), bool(back[index])))
    return found


def segments(bounds: Sequence[tuple[int, int]], found: Sequence[Break]) -> list[tuple[int, int]]:
    """Return begin and end of the times in which every topic has said something and none has a break.

    Args:
        bounds: times of the first and the last message of each topic [ns].
        found: breaks of the topics.
    """
    begin, end = max(first for first, _ in bounds), min(last for _, last in bounds)
    parts = []
    for each in sorted(found, key=lambda each: each.at_ns):
        after = each.at_ns + each.silence_ns
        if begin <= min(each.at_ns, end):
            parts.append((begin, min(each.at_ns, end)))
        begin = max(begin, after)
    if begin <= end:
        parts.append((begin, end))
    return parts
