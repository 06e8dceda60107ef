"""Folders and files that are built beside their final path and moved there when complete."""

import contextlib
import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def draft_of(path: Path) -> Iterator[Path]:
    """Yield a temporary path with the name of ``path``, for a folder or file to be moved to ``path`` when complete.

    The rest is removed when the block ends, as are drafts of the same path that killed processes left behind: a live
    process holds a lock on the folder ``NAME.partial-PID`` that contains its draft.

    Args:
        path: the final path; its folder is created if it is missing.

    Raises:
        OSError: if writing fails.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    _remove_abandoned(path)
    # Locked before it gets the name by which other processes find it.
    folder = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with contextlib.suppress(OSError):  # some network file systems cannot lock folders
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        folder = folder.rename(path.with_name(f"{path.name}.partial-{os.getpid()}"))
        yield folder / path.name
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)


def _remove_abandoned(path: Path) -> None:
    """Remove the drafts of ``path`` that are not locked."""
    form = re.compile(re.escape(path.name) + r"\.partial-\d+")
    for folder in path.parent.iterdir():
        if form.fullmatch(folder.name) is None:
            continue
        with contextlib.suppress(OSError):
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(descriptor)
