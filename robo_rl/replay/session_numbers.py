"""Session numbers of actors: those in use, and those reserved on disk."""

from typing import NamedTuple

from robo_rl.core import DataError

MOST_ACTORS = 10_000
"""Largest number of actor names in one replay buffer. Clients with a token alone can make up any number of names."""
MOST_RESERVED = 1000
"""Largest number of session numbers that are reserved at once."""
SESSIONS_PER_RESERVED = 10
"""Number of an actor's sessions since the start of the process, per number that is reserved at once."""
MOST_RANGES = 100
"""Largest number of gaps in the session numbers of an actor. A gap arises for each replay buffer that was replaced."""


class Reservation(NamedTuple):
    """Numbers from ``first`` on that no other session receives, even after a restart."""

    first: int
    length: int


class SessionNumbers:
    """Session numbers of one actor.

    An actor may begin any number of sessions, and each keeps its number after a restart of the learner. The numbers of
    an actor that begins many sessions are therefore reserved in growing blocks, and adjacent numbers are stored as one
    range, so that most sessions without a step take neither disk space nor memory. After a restart, all reserved
    numbers count as used.
    """

    def __init__(self) -> None:
        self._ranges: list[tuple[int, int]] = []
        self._reserved = 0
        self._begun = 0

    @property
    def newest(self) -> int:
        """Largest number in use; 0: none."""
        return self._ranges[-1][1] if self._ranges else 0

    def __contains__(self, number: int) -> bool:
        return any(first <= number <= last for first, last in self._ranges)

    def reserve(self, number: int) -> Reservation | None:
        """Return the reservation to write before ``number`` is used; None if it is already reserved.

        Raises:
            DataError: if the numbers would have more than :data:`MOST_RANGES` gaps.
        """
        if number > self.newest + 1 and len(self._ranges) >= MOST_RANGES:
            raise DataError(f"its sessions left numbers out {MOST_RANGES} times; use another actor.spool")
        if number <= self._reserved:
            return None
        return Reservation(number, min(max(self._begun // SESSIONS_PER_RESERVED, 1), MOST_RESERVED))

    def give(self, number: int, reservation: Reservation | None) -> None:
        """Assign ``number`` to a session, once ``reservation`` is on disk."""
        if reservation is not None:
            self._reserved = reservation.first + reservation.length - 1
        self._begun += 1
        self.add(number)

    def add(self, first: int, count: int = 1) -> None:
        """Count ``count`` numbers from ``first`` on as used; merge the oldest two ranges if there are too many."""
        last = first + count - 1
        for known in [each for each in self._ranges if each[0] <= last + 1 and first <= each[1] + 1]:
            self._ranges.remove(known)
            first, last = min(first, known[0]), max(last, known[1])
        self._ranges = sorted([*self._ranges, (first, last)])
        if len(self._ranges) > MOST_RANGES:
            self._ranges[:2] = [(self._ranges[0][0], self._ranges[1][1])]
