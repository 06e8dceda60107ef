"""Folders and files that are built beside their final path and moved there when complete."""

import contextlib
import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

_SCRATCH = "robo-rl"


@contextlib.contextmanager
def draft_of(path: Path) -> Iterator[Path]:
    """Yield a temporary path with the name of ``path``, for a folder or file to be moved to ``path`` when complete.

    The rest is removed when the block ends, as are drafts of the same path that killed processes left behind: a live
    process holds a lock on the folder ``NAME.partial-PID-RANDOM`` that contains its draft.

    Args:
        path: the final path; its folder is created if it is missing.

    Raises:
        OSError: if writing fails.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with _locked_folder(path.parent, path.name) as folder:
        yield folder / path.name


@contextlib.contextmanager
def scratch_folder(parent: Path | None = None) -> Iterator[Path]:
    """Yield a new folder for temporary files, by default in the system's folder for them.

    It is removed when the block ends, as are the folders of killed processes, which may hold gigabytes.

    Raises:
        OSError: if it cannot be created.
    """
    with _locked_folder(Path(tempfile.gettempdir()) if parent is None else parent, _SCRATCH) as folder:
        yield folder


def remove_abandoned_drafts(path: Path) -> None:
    """Remove the drafts of ``path`` that killed processes left, which hold no locks on them."""
    form = re.compile(re.escape(path.name) + r"\.partial-\d+(-\w+)?")
    for folder in path.parent.iterdir() if path.parent.is_dir() else ():
        if form.fullmatch(folder.name) is None:
            continue
        with contextlib.suppress(OSError):
            descriptor = _locked(folder)
            try:
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(descriptor)


@contextlib.contextmanager
def _locked_folder(parent: Path, name: str) -> Iterator[Path]:
    """Yield a new folder ``NAME.partial-PID-RANDOM``, which is locked as long as this process lives."""
    remove_abandoned_drafts(parent / name)
    descriptor = None
    while descriptor is None:
        folder = Path(tempfile.mkdtemp(prefix=f"{name}.partial-{os.getpid()}-", dir=parent))
        try:
            descriptor = _locked(folder)
        except (FileNotFoundError, BlockingIOError):  # another process is removing it
            continue
        except OSError:  # some network file systems cannot lock folders
            break
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if descriptor is not None:
            os.close(descriptor)


def _locked(folder: Path) -> int:
    """Return an open descriptor of a folder that holds a lock on it.

    Raises:
        OSError: if the folder cannot be locked, was removed (FileNotFoundError), or is locked by another process
            (BlockingIOError).
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not folder.exists():
            raise FileNotFoundError(folder)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
