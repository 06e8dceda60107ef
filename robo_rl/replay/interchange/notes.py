"""Notes of an import: omissions and changes, with counts."""

SHOWN = 10
"""Number of places that a note lists. Further places are only counted."""


class ImportNotes:
    """Sentences about omissions and changes, each with the places in the data that it applies to.

    The same note may be added repeatedly, because the episodes of a data set may be read repeatedly; it counts once.
    """

    def __init__(self) -> None:
        self._places: dict[str, dict[str, None]] = {}

    def add(self, what: str, *places: str) -> None:
        """Add the note ``what`` for ``places``.

        Args:
            what: a sentence without full stop, the same for all places.
            places: features, episodes, frames, ...
        """
        self._places.setdefault(what, {}).update(dict.fromkeys(places))

    def lines(self) -> list[str]:
        """Return one line for each sentence, with the number of places and the first of them."""
        lines = []
        for what, places in self._places.items():
            listed = ", ".join(list(places)[:SHOWN]) + (", ..." if len(places) > SHOWN else "")
            lines.append(f"{what}: {len(places)} ({listed})" if places else what)
        return lines
