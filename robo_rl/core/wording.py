"""Wording of messages: commands to paste into a shell, and counts."""

import re
import shlex
from pathlib import Path


def override(key: str, value: str | Path) -> str:
    """Return ``KEY=VALUE`` to paste into a shell, quoted for the shell and for Hydra if ``value`` requires it."""
    return shlex.quote(override_word(key, value))


def override_word(key: str, value: str | Path) -> str:
    """Return ``KEY=VALUE`` as a word of a command line, quoted for Hydra alone if ``value`` requires it."""
    text = str(value)
    is_plain = re.fullmatch(r"[\w./:@+-]+", text, re.ASCII)
    return f"{key}={text if is_plain else quoted(text)}"


def quoted(text: str) -> str:
    """Return ``text`` in quotes, as Hydra reads a string."""
    escaped = re.sub(r'\\*(?="|$)', lambda found: 2 * found[0], text).replace('"', '\\"')
    return f'"{escaped}"'


def counted(count: int, thing: str) -> str:
    """Return a count with its noun, which forms its plural with an s.

    >>> counted(1, "episode"), counted(1200, "step")
    ('1 episode', '1,200 steps')
    """
    return f"{count:,} {thing}{'' if count == 1 else 's'}"
