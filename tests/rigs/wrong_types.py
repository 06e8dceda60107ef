"""Values of wrong types in the place of each value of a JSON document."""

import copy
from collections.abc import Iterator
from typing import Any

WRONG: list[Any] = [None, True, -1, 0.5, 10**30, 1e300, "", "x", "\x1b[2J", [], [1], {}, {"a": 1}, ["a", {"b": []}]]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield where each value of a document is, the document itself first."""
    yield path
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in pairs:
        yield from places(child, (*path, key))


def mutations(document: Any) -> Iterator[tuple[str, Any]]:
    """Yield copies of a document in each of which one value is another, or missing, and what was changed."""
    for path in places(document):
        for wrong in WRONG:
            yield f"{path} = {wrong!r}", _with(document, path, wrong)
        if path and isinstance(path[-1], str):
            yield f"{path} is missing", _with(document, path, None, removed=True)


def _with(document: Any, path: tuple[Any, ...], wrong: Any, removed: bool = False) -> Any:
    if not path:
        return copy.deepcopy(wrong)
    changed = copy.deepcopy(document)
    inner = changed
    for key in path[:-1]:
        inner = inner[key]
    if removed:
        del inner[path[-1]]
    else:
        inner[path[-1]] = copy.deepcopy(wrong)
    return changed
