"""Words that people are told: of commands that they may give, and counts."""

import re
import shlex
from pathlib import Path


def override(key: str, value: str | Path) -> str:
    """Return ``KEY=VALUE`` to be pasted into a shell: quoted for it, and for Hydra, where ``value`` needs that."""
    text = str(value)
    if re.fullmatch(r"[\w./:@+-]+", text, re.ASCII):
        return f"{key}={text}"
    escaped = re.sub(r'\\*(?="|$)', lambda found: 2 * found[0], text).replace('"', '\\"')
    return shlex.quote(f'{key}="{escaped}"')


def counted(count: int, thing: str) -> str:
    """Return a count with its noun, whose plural has an s.

    >>> counted(1, "episode"), counted(1200, "step")
    ('1 episode', '1,200 steps')
    """
    return f"{count:,} {thing}{'' if count == 1 else 's'}"
