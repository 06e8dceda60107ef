"""Folders that are made beside their place and moved there whole."""

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
    """Yield a path under which a folder or file of the name of ``path`` is made, to be moved there when it is whole.

    What is left of it when the block ends is removed, and so are drafts of the same path that killed processes left: a
    process that lives holds a lock on the folder ``NAME.partial-PID`` in which its draft lies.

    Args:
        path: where it will be; its folder is made where it is missing.

    Raises:
        OSError: if the disk refuses.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    _remove_left(path)
    # Locked before it has the name by which others find it.
    folder = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with contextlib.suppress(OSError):  # some network file systems lock no folders
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        folder = folder.rename(path.with_name(f"{path.name}.partial-{os.getpid()}"))
        yield folder / path.name
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)


def _remove_left(path: Path) -> None:
    """Remove the drafts of ``path`` that nobody has locked."""
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
