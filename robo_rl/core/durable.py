"""Writing of files that stay complete after a killed process or a power cut."""

import os
import shutil
from pathlib import Path


def write_durably(path: Path, data: bytes) -> None:
    """Replace the file by ``data``, or leave it unchanged on failure; on return the data is on disk.

    Symbolic links are not followed: neither at ``path``, which is replaced, nor at the temporary file.
    """
    partial = path.with_name(f"{path.name}.partial")
    try:
        partial.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(partial, flags, 0o666), "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        partial.replace(path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def copy_durably(source: Path, target: Path) -> None:
    """Copy a file of any size to a new one; on return the copy is on disk."""
    with source.open("rb") as original, target.open("xb") as copy:
        shutil.copyfileobj(original, copy)
        copy.flush()
        os.fsync(copy.fileno())
    sync_folder(target.parent)


def sync_folder(path: Path) -> None:
    """Write the names in a folder to disk: a synchronised file may otherwise lack its name after a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
