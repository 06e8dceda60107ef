"""Where a command that works for long will write: looked at before the work, not after it."""

import tempfile
from pathlib import Path

from ..core import ConfigError


def new_output(option: str, value: str, kind: str) -> Path:
    """Return the path of a file or folder to be made; the folder that it will lie in is made if it is not there.

    Args:
        option: that names it, for messages.
        value: of the option.
        kind: ``file`` or ``folder``, for messages.

    Raises:
        ConfigError: if it is there already, or cannot be written.
    """
    path = Path(value)
    try:
        if path.exists():
            raise ConfigError(f"{option}: {path} is there already; give another {kind}, or remove it")
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        reason = error.strerror or error
        raise ConfigError(f"{option}: {path} cannot be written ({reason}); give another {kind}") from error
    return path
