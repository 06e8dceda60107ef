"""Notes of an import: what it leaves out or changes, with counts."""

SHOWN = 10
"""Places that a note lists; the others are counted alone."""


class ImportNotes:
    """Sentences about what is left out or changed, each with the places where that happened.

    The same note may be made again, as the episodes of a data set may be read again; it counts once.
    """

    def __init__(self) -> None:
        self._places: dict[str, dict[str, None]] = {}

    def add(self, what: str, *places: str) -> None:
        """Note that ``what`` happened at ``places``.

        Args:
            what: a sentence without its full stop, the same for all places.
            places: feature, episode, frame, ...
        """
        self._places.setdefault(what, {}).update(dict.fromkeys(places))

    def lines(self) -> list[str]:
        """Return one line for each sentence, with the number of places and the first of them."""
        lines = []
        for what, places in self._places.items():
            shown = ", ".join(list(places)[:SHOWN]) + (", ..." if len(places) > SHOWN else "")
            lines.append(f"{what}: {len(places)} ({shown})" if places else what)
        return lines
