"""Files that a killed process or a power cut leaves whole."""

import os
from pathlib import Path


def write_durably(path: Path, data: bytes) -> None:
    """Replace the file by ``data``, or leave it as it was: on return the data is on the disk."""
    partial = path.with_name(f"{path.name}.partial")
    try:
        with partial.open("wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        partial.replace(path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Bring the names in a folder to the disk: a file that was synchronised itself may lack its name."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
