"""Words of commands that people are told to give."""

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
