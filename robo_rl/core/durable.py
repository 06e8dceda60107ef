"""Writing of files that stay complete after a killed process or a power cut."""

import contextlib
import os
import secrets
import shutil
from pathlib import Path

_DESCRIPTORS = Path("/proc/self/fd")


def write_durably(path: Path, data: bytes) -> None:
    """Replace the file by ``data``, or leave it unchanged on failure; on return the data is on disk.

    Symbolic links are not followed: ``path`` is replaced if it is one. Several processes may write the same file at
    once. A killed process leaves nothing behind where the file system supports files without a name.
    """
    partial = path.with_name(f".{secrets.token_hex(8)}.partial")
    try:
        with os.fdopen(_open_new(partial), "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
            if not os.fstat(stream.fileno()).st_nlink:
                # Only with a folder, which an absolute path does not need, does Python follow the link of the source.
                os.link(f"{_DESCRIPTORS}/{stream.fileno()}", partial, src_dir_fd=stream.fileno())
        partial.replace(path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def _open_new(file: Path) -> int:
    """Open a new file for writing, without a name in the folder of ``file`` if that is possible."""
    if _DESCRIPTORS.exists() and hasattr(os, "O_TMPFILE"):
        with contextlib.suppress(OSError):  # not on network file systems
            return os.open(file.parent, os.O_WRONLY | os.O_TMPFILE | os.O_CLOEXEC, 0o666)
    return os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)


def copy_durably(source: Path, target: Path) -> None:
    """Copy a file of any size to a new one; on return the copy is on disk."""
    with source.open("rb") as original, target.open("xb") as copy:
        shutil.copyfileobj(original, copy)
        copy.flush()
        os.fsync(copy.fileno())
    sync_folder(target.parent)


def sync_tree(path: Path) -> None:
    """Write a file, or everything in a folder, to disk, before it is renamed: a name without content may remain."""
    for each in [path, *path.rglob("*")]:
        if not each.is_symlink():
            sync_folder(each)


def sync_folder(path: Path) -> None:
    """Write the names in a folder to disk: a synchronised file may otherwise lack its name after a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
