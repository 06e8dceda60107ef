"""Wording of messages: commands to paste into a shell, and counts."""

import re
import shlex
from pathlib import Path


def override(key: str, value: str | Path) -> str:
    """Return ``KEY=VALUE`` to paste into a shell, quoted for the shell and for Hydra if ``value`` requires it."""
    text = str(value)
    if re.fullmatch(r"[\w./:@+-]+", text, re.ASCII):
        return f"{key}={text}"
    escaped = re.sub(r'\\*(?="|$)', lambda found: 2 * found[0], text).replace('"', '\\"')
    return shlex.quote(f'{key}="{escaped}"')


def counted(count: int, thing: str) -> str:
    """Return a count with its noun, which forms its plural with an s.

    >>> counted(1, "episode"), counted(1200, "step")
    ('1 episode', '1,200 steps')
    """
    return f"{count:,} {thing}{'' if count == 1 else 's'}"
