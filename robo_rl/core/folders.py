"""Folders for a user's files that belong to no run."""

import os
from pathlib import Path
from typing import Literal

from .errors import ConfigError

_VARIABLES = {"cache": ("XDG_CACHE_HOME", ".cache"), "state": ("XDG_STATE_HOME", ".local/state")}


def user_folder(kind: Literal["cache", "state"], what: str, otherwise: str = "") -> Path:
    """Return this user's folder of robo-rl, following the XDG Base Directory Specification. It may not exist yet.

    Args:
        kind: ``cache`` (can be made again) or ``state`` (must not be lost): ``robo_rl`` in ``$XDG_CACHE_HOME``, by
            default ``~/.cache``, or in ``$XDG_STATE_HOME``, by default ``~/.local/state``.
        what: the purpose of the folder, for the error message.
        otherwise: an alternative for users without a home folder, for the error message, such as an option to set.

    Raises:
        ConfigError: if this user has no home folder, and the variable is not set.
    """
    variable, default = _VARIABLES[kind]
    try:
        base = Path(os.environ.get(variable) or Path.home() / default)
    except RuntimeError as error:  # as in some containers
        raise ConfigError(f"no place for {what} ({error}): set {variable}{otherwise}") from error
    return base / "robo_rl"
