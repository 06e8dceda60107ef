"""Where a command that works for long will write: looked at before the work, not after it."""

import tempfile
from pathlib import Path

from ..core import ConfigError, require


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
    except OSError as error:
        raise _unwritable(option, path, kind, error) from error
    _try_folder(option, path, kind)
    return path


def output_file(option: str, value: str | Path) -> Path:
    """Return the path of a file to be written, as :func:`new_output`; one that is there will be replaced.

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
    return ConfigError(f"{option}: {path} cannot be written ({error.strerror or error}); give another {kind}")
