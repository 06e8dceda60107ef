"""Reader of JSON of other projects, whose values can be stored in a data set of robo-rl."""

import math
from typing import Any

from robo_rl.core import DataError, parse_json

DEPTH = 56
"""Deepest nesting that is accepted. Values are stored some levels down in the description of the data set."""


def read_foreign_json(text: str | bytes, where: object) -> Any:
    """Return the value of a JSON text of another project; NaN and infinities become strings.

    Raises:
        DataError: if it is not JSON, is nested deeper than :data:`DEPTH`, or has characters that UTF-8 cannot encode.
    """
    return _name_nonfinite(parse_json(text, str(where), finite=False, depth=DEPTH))


def check_text(text: str, where: object) -> str:
    """Return a text of another project.

    Raises:
        DataError: if UTF-8 cannot encode it, for example because of half a surrogate pair.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise DataError(f"{where}: expected UTF-8 text, found {text[:80]!a}; correct the text in the data") from error
    return text


def _name_nonfinite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _name_nonfinite(element) for key, element in value.items()}
    if isinstance(value, list):
        return [_name_nonfinite(element) for element in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value
