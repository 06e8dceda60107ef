"""Pages that commands of this user serve at present: a locked file for each of them, in the user's own folder."""

import contextlib
import fcntl
import json
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from robo_rl.core import ConfigError, is_loopback, user_folder

FOLDER = "open_pages"
MOST_PAGES = 32
PAGE_BYTES = 4096
"""Limits on what is read: files, and bytes of each."""


class OpenPage(NamedTuple):
    """A page: what it is for, and its address with the token."""

    title: str
    link: str


@contextlib.contextmanager
def listed(page: OpenPage) -> Iterator[None]:
    """List a page in :func:`open_pages` within the context; where this user has no folder for it, list nothing."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(ConfigError, OSError):  # the page works without being listed
            _write(page, stack)
        yield


def open_pages(local: bool) -> list[OpenPage]:
    """Return the pages that are served at present, sorted by title.

    Args:
        local: whether pages are included that this machine alone can reach.
    """
    pages = []
    with contextlib.suppress(ConfigError, OSError):
        for path in sorted(_folder().glob("*.json"))[:MOST_PAGES]:
            page = _read(path)
            if page is not None and (local or not is_loopback(urlsplit(page.link).hostname or "")):
                pages.append(page)
    return sorted(pages)


def _folder() -> Path:
    return user_folder("state", "the list of open pages") / FOLDER


def _write(page: OpenPage, stack: contextlib.ExitStack) -> None:
    """Write the file of a page, which is locked and exists until ``stack`` is closed."""
    folder = _folder()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = folder / f".{os.getpid()}_{secrets.token_hex(4)}"
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    stack.callback(os.close, descriptor)
    stack.callback(draft.unlink, missing_ok=True)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    os.write(descriptor, json.dumps(page._asdict()).encode())
    path = draft.rename(folder / f"{draft.name[1:]}.json")  # locked by then, so nobody takes it for one that remained
    stack.callback(path.unlink, missing_ok=True)


def _read(path: Path) -> OpenPage | None:
    """Return the page in a file; None, and the file is removed, if the process that served it has ended."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:  # its process runs
        with contextlib.suppress(OSError, ValueError, TypeError, RecursionError):
            page = OpenPage(**json.loads(os.read(descriptor, PAGE_BYTES)))
            if urlsplit(str(page.link)).scheme in ("http", "https"):
                return OpenPage(str(page.title), str(page.link))
        return None
    else:
        path.unlink(missing_ok=True)
        return None
    finally:
        os.close(descriptor)
