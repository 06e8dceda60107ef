"""Former names of options, which commands accept for one release."""

import sys
from collections.abc import Sequence

RENAMED = {
    "calibrate hand_eye": {"data": "path"},
    "collect": {"path": "output"},
    "identify": {"data": "path"},
    "keys": {"path": "output"},
    "record": {"record.path": "record.output"},
}
"""New names by command and former name. What is read is named ``path``, and what is written ``output``."""


def with_new_names(command: str, overrides: Sequence[str]) -> list[str]:
    """Return the overrides with the new names of renamed options, and print each renaming to the error output."""
    renamed = RENAMED.get(command, {})
    return [_renamed(command, word, renamed.get(word.lstrip("+").partition("=")[0])) for word in overrides]


def _renamed(command: str, word: str, new: str | None) -> str:
    if new is None or "=" not in word:
        return word
    former, _, value = word.lstrip("+").partition("=")
    print(f"robo-rl {command}: {former} is now {new}; the next release will not accept the old name", file=sys.stderr)
    return f"{new}={value}"
