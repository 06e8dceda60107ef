"""Messages for operators from code that does not know who listens, such as the driver of a robot."""

import contextlib
from collections.abc import Callable, Iterator

_LISTENERS: list[Callable[[str], object]] = []


def announce(text: str) -> None:
    """Print a message for operators, and pass it on to those who listen; safe to call from any thread."""
    with contextlib.suppress(OSError, ValueError):  # a terminal that is closed must not end the thread of a driver
        print(text, flush=True)
    for listener in list(_LISTENERS):
        listener(text)


@contextlib.contextmanager
def listening(listener: Callable[[str], object]) -> Iterator[None]:
    """Pass messages on to ``listener`` within the block, for operators who do not see what this process prints."""
    _LISTENERS.append(listener)
    try:
        yield
    finally:
        _LISTENERS.remove(listener)
