"""Numbers of actors' sessions: which were given, and which are reserved on disk."""

from typing import NamedTuple

from robo_rl.core import DataError

MOST_ACTORS = 10_000
"""Most names of actors in one replay buffer: with a token alone, names can be made up freely."""
MOST_RESERVED = 1000
"""Most numbers that are reserved at once."""
SESSIONS_PER_RESERVED = 10
"""Sessions of an actor since the start of the process, for each number that is reserved at once."""
MOST_RANGES = 100
"""Most times that the numbers of an actor may leave some out: once for each replay buffer that was replaced."""


class Reservation(NamedTuple):
    """Numbers from ``first`` on that are given to no other session, also after a restart."""

    first: int
    length: int


class SessionNumbers:
    """Session numbers of one actor.

    An actor may begin any number of sessions, and each keeps its number after a restart of the learner. Numbers of an
    actor that begins many are therefore reserved in growing blocks, and adjacent ones are kept as one range: most
    sessions without a step cost neither disk nor memory. After a restart all reserved numbers count as given.
    """

    def __init__(self) -> None:
        self._ranges: list[tuple[int, int]] = []
        self._reserved = 0
        self._begun = 0

    @property
    def newest(self) -> int:
        """Largest number that was given; 0: none."""
        return self._ranges[-1][1] if self._ranges else 0

    def __contains__(self, number: int) -> bool:
        return any(first <= number <= last for first, last in self._ranges)

    def reserve(self, number: int) -> Reservation | None:
        """Return the reservation to write before ``number`` is given; None if it is reserved.

        Raises:
            DataError: if the numbers would leave some out more than :data:`MOST_RANGES` times.
        """
        if number > self.newest + 1 and len(self._ranges) >= MOST_RANGES:
            raise DataError(f"its sessions left numbers out {MOST_RANGES} times; use another actor.spool")
        if number <= self._reserved:
            return None
        return Reservation(number, min(max(self._begun // SESSIONS_PER_RESERVED, 1), MOST_RESERVED))

    def give(self, number: int, reservation: Reservation | None) -> None:
        """Give ``number`` to a session, once ``reservation`` is on disk."""
        if reservation is not None:
            self._reserved = reservation.first + reservation.length - 1
        self._begun += 1
        self.add(number)

    def add(self, first: int, count: int = 1) -> None:
        """Count ``count`` numbers from ``first`` on as given, and of too many ranges those between the oldest two."""
        last = first + count - 1
        for known in [each for each in self._ranges if each[0] <= last + 1 and first <= each[1] + 1]:
            self._ranges.remove(known)
            first, last = min(first, known[0]), max(last, known[1])
        self._ranges = sorted([*self._ranges, (first, last)])
        if len(self._ranges) > MOST_RANGES:
            self._ranges[:2] = [(self._ranges[0][0], self._ranges[1][1])]
