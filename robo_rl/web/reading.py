"""Calls that read files, made beside an event loop, which nothing that a file system does or fails to do holds up."""

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from threading import Thread
from typing import Any

Outcome = Any
"""What a call returned, or the Exception that it raised."""


class Readers:
    """Makes calls in threads that nobody waits for at the end of the process.

    Calls have names. One that does not return in time is left behind in its thread, and the others go on in another.
    It is not begun again before it has returned, so that a folder that never answers costs one thread; what it then
    returned is the outcome of the next call of its name.

    Args:
        seconds: longest that a call is waited for.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._late: dict[str, _Work] = {}

    async def read(self, calls: Mapping[str, Callable[[], Any]]) -> dict[str, Outcome]:
        """Make calls, one after the other; return the outcome of each, TimeoutError for one that was left behind."""
        outcomes: dict[str, Outcome] = {}
        waiting = dict(calls)
        for name in [name for name in waiting if name in self._late]:
            outcomes[name] = self._late[name].outcomes.get(name, self._too_late())
            if name in self._late[name].outcomes:
                del self._late[name]
            del waiting[name]
        while waiting:
            work = _Work(waiting, asyncio.get_running_loop())
            work.start()
            try:
                while not work.ended.is_set() and (left := work.since + self._seconds - time.monotonic()) > 0:
                    # Not wait_for: in Python 3.11 it forgets that it was cancelled where the event is set meanwhile.
                    with suppress(TimeoutError):
                        async with asyncio.timeout(left):
                            await work.ended.wait()
            finally:
                work.given_up = True  # also where nobody waits any more
                outcomes |= work.outcomes
                waiting = {name: call for name, call in waiting.items() if name not in outcomes}
                if (late := work.at) in waiting:
                    del waiting[late]
                    outcomes[late] = self._too_late()
                    self._late[late] = work
        return outcomes

    async def call(self, name: str, function: Callable[[], Any]) -> Any:
        """Make one call and return what it returned; one of this name that was late before is made again.

        Raises:
            TimeoutError: if it does not return in time, or the one before has not returned yet.
            Exception: what the call raises.
        """
        if name in self._late and name in self._late[name].outcomes:
            del self._late[name]
        outcome = (await self.read({name: function}))[name]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def _too_late(self) -> TimeoutError:
        return TimeoutError(f"no answer of its file system within {self._seconds:g} s")


class _Work(Thread):
    """Calls that are made one after the other: at which it is, since when, and what has come of them."""

    def __init__(self, calls: Mapping[str, Callable[[], Any]], loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(name="reading", daemon=True)
        self._calls = dict(calls)
        self._loop = loop
        self.at = next(iter(calls))
        self.since = time.monotonic()
        self.outcomes: dict[str, Outcome] = {}
        self.ended = asyncio.Event()
        self.given_up = False

    def run(self) -> None:
        for name, call in self._calls.items():
            self.at, self.since = name, time.monotonic()
            try:
                self.outcomes[name] = call()
            except Exception as error:  # one bad folder takes no other with it
                self.outcomes[name] = error
            if self.given_up:  # not before: the call that it is at is counted as late until it has an outcome
                break
        with suppress(RuntimeError):  # the loop was closed meanwhile
            self._loop.call_soon_threadsafe(self.ended.set)
