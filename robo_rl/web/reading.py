"""Calls that read files, made outside the event loop, so that a slow or broken file system does not block it."""

import asyncio
import math
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from threading import Lock, Semaphore, Thread
from typing import Any

Outcome = Any
"""Result of a call, or the Exception that it raised."""

TURNS = Semaphore(2)
"""The right to read, for all pages together: each thread that computes delays the event loop, and so a stop."""


class Readers:
    """Calls in threads that do not delay the end of the process.

    Calls have names. A call that does not return in time is left in its thread, and the remaining calls continue in
    another thread. A late call is not repeated before it has returned, so that a folder that never answers costs one
    thread; its result is then the outcome of the next call of its name.

    Args:
        seconds: longest time to wait for a call after it has begun; may be infinite.
        turns: calls begin in turns, as many at a time as this semaphore allows; late ones give up their turn. None: all
            begin at once.
    """

    def __init__(self, seconds: float, turns: Semaphore | None = None) -> None:
        self._seconds, self._turns = seconds, turns
        self._late: dict[str, _Work] = {}

    async def read(self, calls: Mapping[str, Callable[[], Any]]) -> dict[str, Outcome]:
        """Make calls one after another; return the outcome of each, TimeoutError for a late one."""
        outcomes: dict[str, Outcome] = {}
        pending = dict(calls)
        for name in [name for name in pending if name in self._late]:
            outcomes[name] = self._late[name].outcomes.get(name, self._too_late())
            if name in self._late[name].outcomes:
                del self._late[name]
            del pending[name]
        while pending:
            work = _Work(pending, asyncio.get_running_loop(), self._turns)
            work.start()
            try:
                while not work.ended.is_set() and (remaining := work.since + self._seconds - time.monotonic()) > 0:
                    # Not wait_for: in Python 3.11 it loses a cancellation if the event is set at the same time.
                    with suppress(TimeoutError):
                        async with asyncio.timeout(min(remaining, self._seconds)):  # its turn may come meanwhile
                            await work.ended.wait()
            finally:
                work.abandon()  # also if the caller was cancelled
                outcomes |= work.outcomes
                pending = {name: call for name, call in pending.items() if name not in outcomes}
                if work.has_begun and (late_name := work.current) in pending:
                    del pending[late_name]
                    outcomes[late_name] = self._too_late()
                    self._late[late_name] = work
        return outcomes

    async def call(self, name: str, function: Callable[[], Any]) -> Any:
        """Make one call and return its result; if an earlier late call of this name has returned, ignore its outcome.

        Raises:
            TimeoutError: if the call does not return in time, or an earlier one has not returned yet.
            Exception: raised by the call.
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
    """A thread that makes calls one after another: the current call, when it began, and the outcomes so far.

    ``since`` is infinite while it waits for its turn.
    """

    def __init__(
        self, calls: Mapping[str, Callable[[], Any]], loop: asyncio.AbstractEventLoop, turns: Semaphore | None
    ) -> None:
        super().__init__(name="reading", daemon=True)
        self._calls, self._loop, self._turns = dict(calls), loop, turns
        self._lock, self._has_turn = Lock(), False
        self.current = next(iter(calls))
        self.since = math.inf
        self.outcomes: dict[str, Outcome] = {}
        self.ended = asyncio.Event()
        self.abandoned = False

    @property
    def has_begun(self) -> bool:
        """Whether the current call has started."""
        return self.since < math.inf

    def run(self) -> None:
        for name, call in self._calls.items():
            if not self._begin(name):
                break
            try:
                self.outcomes[name] = call()
            except Exception as error:  # a bad folder does not affect the others
                self.outcomes[name] = error
            self._end_turn()
            if self.abandoned:  # not earlier: the current call counts as late until it has an outcome
                break
        with suppress(RuntimeError):  # the loop was closed in the meantime
            self._loop.call_soon_threadsafe(self.ended.set)

    def abandon(self) -> None:
        """Make no further calls, and give up the turn of the current one."""
        with self._lock:
            self.abandoned = True
        self._end_turn()

    def _begin(self, name: str) -> bool:
        """Wait for a turn; return whether the call ``name`` may begin, which is false after :meth:`abandon`."""
        self.since = math.inf
        if self._turns is not None:
            self._turns.acquire()
        with self._lock:
            self._has_turn, begins = self._turns is not None, not self.abandoned
            if begins:
                self.current, self.since = name, time.monotonic()
        if not begins:
            self._end_turn()
        return begins

    def _end_turn(self) -> None:
        with self._lock:
            had_turn, self._has_turn = self._has_turn, False
        if had_turn and self._turns is not None:
            self._turns.release()
