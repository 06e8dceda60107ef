"""JSON texts of other projects: what is kept of them can be stored in a data set of ours."""

import math
from typing import Any

from robo_rl.core import DataError, parse_json

DEPTH = 56
"""Deepest nesting that is read. What is kept stands some levels down in the description of the data set."""


def read_foreign_json(text: str | bytes, where: object) -> Any:
    """Return the value in a JSON text of others; NaN and infinities, which our files do not have, become their names.

    Raises:
        DataError: if it is not JSON, nests deeper than :data:`DEPTH`, or has characters that no file holds.
    """
    return _named(parse_json(text, str(where), finite=False, depth=DEPTH))


def check_text(text: str, where: object) -> str:
    """Return a text of others.

    Raises:
        DataError: if it has characters that no file holds: bytes that are no UTF-8, or half of a surrogate pair.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise DataError(
            f"{where}: expected UTF-8 text, found {text[:80]!a}; correct it where it was written"
        ) from error
    return text


def _named(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _named(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_named(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value
