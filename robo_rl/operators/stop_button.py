"""Emergency stop and re-arming for pages in the browser. The stop does not wait for other requests of the pages."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any

from ..core import EmergencyStop, RoboRLError
from ..web.reading import Readers
from .rearming import Hold, find_stops, release_holds, release_order

PRESS_SECONDS = 5.0
"""Longest wait for the file system of this user [s]."""
REARM_SECONDS = 30.0
"""Longest wait until everything is released [s]. The service of a robot's own controller may take seconds."""


class StopButton:
    """Presses the emergency stop of all robots of this user for pages, re-arms them, and answers the pages.

    A press continues if the page that requested it leaves.

    Args:
        find: returns the latches that pages show and release.
    """

    def __init__(self, find: Callable[[], list[Hold]] = find_stops) -> None:
        self._find = find
        self._readers = Readers(PRESS_SECONDS)
        self._releases = Readers(REARM_SECONDS)
        self._presses: set[asyncio.Task[None]] = set()

    def press(self, answer: Callable[[Mapping[str, Any]], Awaitable[None]], run: object) -> None:
        """Press the emergency stop; ``answer`` is called with the message for the page that shows ``run``."""
        self._start(self._press(answer, run))

    def rearm(self, answer: Callable[[Mapping[str, Any]], Awaitable[None]], seen: object) -> None:
        """Release the latches that a person has seen and confirmed, and answer which were released, and why not.

        Args:
            answer: called with the message for the page.
            seen: holds as :func:`described` has sent them to the page; others remain.
        """
        self._start(self._rearm(answer, seen))

    async def held(self) -> list[dict[str, str]]:
        """Return descriptions of the latches that hold robots still; if they cannot be read, the reason."""
        try:
            entries: list[dict[str, str]] = await self._readers.call("held", lambda: described(self._find()))
        except (RoboRLError, OSError) as error:  # includes time-outs
            return [{"what": "unknown", "reason": str(error)}]
        return entries

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._presses.add(task)
        task.add_done_callback(self._presses.discard)

    async def _rearm(self, answer: Callable[[Mapping[str, Any]], Awaitable[None]], seen: object) -> None:
        try:
            lines = await self._releases.call("rearm", partial(rearm_seen, seen, self._find))
        except TimeoutError:
            lines = [f"Not known to be re-armed after {REARM_SECONDS:g} s: robots may begin to move later"]
        except (RoboRLError, OSError) as error:
            lines = [f"NOT re-armed: {error}"]
        await answer({"answer": "; ".join(lines)})

    async def _press(self, answer: Callable[[Mapping[str, Any]], Awaitable[None]], run: object) -> None:
        try:
            problem = await self._readers.call("stop", press_emergency_stop)
        except (RoboRLError, OSError) as error:  # includes time-outs
            problem = str(error)
        failure = {"answer": f"ROBOTS ARE NOT STOPPED: {problem}. Use the button that cuts the power"}
        await answer(failure if problem else {"answer": "Robots are stopped", "stopped": run})


def press_emergency_stop() -> str:
    """Press the emergency stop of all robots of this user; return the problem, or an empty string on success."""
    emergency = EmergencyStop()
    return "" if emergency.press("the page of robo-rl web") else f"{emergency.file} cannot be written"


def described(holds: Sequence[Hold]) -> list[dict[str, str]]:
    """Return descriptions of the latches that hold robots still, as a page shows them."""
    return [{"what": hold.what, "reason": hold.description} for hold in holds]


def rearm_seen(seen: object, find: Callable[[], list[Hold]] = find_stops) -> list[str]:
    """Release those of the latches that ``find`` returns which a page showed when a person confirmed.

    Returns a line for each latch.

    A stop that was pressed after the page was drawn is not released, because nobody has read its reason. The same holds
    for a stop that is pressed while the controller of another robot takes seconds to answer.
    """
    entries = seen if isinstance(seen, list) else []
    released, failed = [], []
    for hold in release_order(find()):
        if _is_listed(hold, entries) and described([hold])[0] in described(find()):
            done, problems = release_holds([hold])
            released += done
            failed += problems
    new = [f"Still stopped: {hold.what}: {hold.reason}" for hold in find() if not _is_listed(hold, entries)]
    return [*released, *failed, *new] or ["Nothing holds robots still"]


def _is_listed(hold: Hold, entries: Sequence[object]) -> bool:
    return described([hold])[0] in entries


def holds_of_robots() -> list[dict[str, str]]:
    """Return the latches that hold this user's robots still, for display."""
    return described(find_stops())


def holds_or_problem(outcome: Any) -> list[dict[str, str]]:
    """Return the holds; if they could not be read, the reason as one of them."""
    if isinstance(outcome, Exception):
        return [{"what": "unknown", "reason": str(outcome)}]
    held: list[dict[str, str]] = outcome
    return held
