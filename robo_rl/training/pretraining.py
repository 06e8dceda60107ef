"""What a run does before its first step, told to people, who may end it."""

from collections.abc import Callable, Iterator

from ..core import Clock, Interruption, MonotonicClock

TOLD_SECONDS = 5.0


def counted_updates(
    total: int, doing: str, interruption: Interruption, tell: Callable[[str], None], clock: Clock | None = None
) -> Iterator[int]:
    """Count updates from 1 to ``total``; say at the first, and then now and then, how many are done.

    Args:
        total: how many there are.
        doing: what they are, for people: ``cloning``.
        interruption: asked before each.
        tell: takes what is said.
        clock: monotonic time.

    Raises:
        SystemExit: if somebody ends the run.
    """
    clock = clock or MonotonicClock()
    told_ns: int | None = None
    for update in range(1, total + 1):
        interruption.check(doing)
        now = clock.now_ns()
        if told_ns is None or now - told_ns >= TOLD_SECONDS * 1e9:
            tell(f"{doing} {update - 1:,}/{total:,} updates")
            told_ns = now
        yield update
