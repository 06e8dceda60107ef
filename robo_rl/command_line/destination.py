"""The output path of a command that runs for a long time, checked before the work instead of after it."""

import tempfile
from pathlib import Path

from ..core import ConfigError, remove_abandoned_drafts, require


def new_output(option: str, value: str, kind: str) -> Path:
    """Return the path of a file or folder to create; create its parent folder if necessary.

    Args:
        option: name of the option, for messages.
        value: value of the option.
        kind: ``file`` or ``folder``, for messages.

    Raises:
        ConfigError: if it exists already, or cannot be written.
    """
    path = Path(value)
    try:
        remove_abandoned_drafts(path)
        if path.exists():
            raise ConfigError(f"{option}: {path} already exists; choose another {kind}, or remove it")
    except OSError as error:
        raise _unwritable(option, path, kind, error) from error
    _try_folder(option, path, kind)
    return path


def output_file(option: str, value: str | Path) -> Path:
    """Return the path of a file to write, like :func:`new_output`; an existing file will be replaced.

    Raises:
        ConfigError: if it is a folder, or cannot be written.
    """
    path = Path(value)
    require(not path.is_dir(), option, "a file to write, not a folder", str(value))
    _try_folder(option, path, "file")
    return path


def _try_folder(option: str, path: Path, kind: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise _unwritable(option, path, kind, error) from error


def _unwritable(option: str, path: Path, kind: str, error: OSError) -> ConfigError:
    return ConfigError(f"{option}: {path} cannot be written ({error.strerror or error}); choose another {kind}")
