"""Folders and files that are built beside their final path and moved there when complete."""

import contextlib
import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

_SCRATCH = "robo-rl"


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
    with _locked_folder(path.parent, path.name, lambda _: str(os.getpid())) as folder:
        yield folder / path.name


@contextlib.contextmanager
def scratch_folder(parent: Path | None = None) -> Iterator[Path]:
    """Yield a new folder for temporary files, by default in the system's folder for them.

    It is removed when the block ends, as are the folders of killed processes, which may hold gigabytes.

    Raises:
        OSError: if it cannot be created.
    """
    parent = Path(tempfile.gettempdir()) if parent is None else parent
    # A process may use several at once: they differ in the random part.
    with _locked_folder(parent, _SCRATCH, lambda made: f"{os.getpid()}{made.suffix.replace('.', '-')}") as folder:
        yield folder


@contextlib.contextmanager
def _locked_folder(parent: Path, name: str, suffix: Callable[[Path], str]) -> Iterator[Path]:
    """Yield a new folder ``NAME.partial-SUFFIX``, which is locked as long as this process lives."""
    _remove_abandoned(parent / name)
    # Locked before it gets the name by which other processes find it.
    folder = Path(tempfile.mkdtemp(prefix=f".{name}.", dir=parent))
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with contextlib.suppress(OSError):  # some network file systems cannot lock folders
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        folder = folder.rename(parent / f"{name}.partial-{suffix(folder)}")
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)


def _remove_abandoned(path: Path) -> None:
    """Remove the drafts of ``path`` that are not locked."""
    form = re.compile(re.escape(path.name) + r"\.partial-\d+(-\w+)?")
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
