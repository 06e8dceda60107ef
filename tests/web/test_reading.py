"""Calls that read files beside an event loop, and their cancellation."""

import asyncio
import contextlib
import math
import time
from threading import Event, Lock, Semaphore

import pytest

from robo_rl.web.reading import Readers


@pytest.mark.parametrize("ticks", range(6))
def test_a_call_that_is_cancelled_as_it_ends_is_cancelled(ticks: int) -> None:
    """Else a page that left would be read for until the end of the process, which would not come."""

    async def read_for_ever(readers: Readers) -> None:
        while True:
            with contextlib.suppress(OSError):
                await readers.call("a", lambda: time.sleep(0.01))

    async def run() -> None:
        for _ in range(20):
            task = asyncio.create_task(read_for_ever(Readers(1.0)))
            await asyncio.sleep(0.0095)
            for _ in range(ticks):
                await asyncio.sleep(0)
            while not task.done() and not task.cancelling():
                await asyncio.sleep(0)
                task.cancel()
            done, _ = await asyncio.wait({task}, timeout=5)
            assert done, "the cancelled task still runs"

    asyncio.run(run())


def test_a_call_that_was_cancelled_before_it_began_is_made_again() -> None:
    async def run() -> None:
        readers = Readers(20.0)
        for _ in range(50):
            task = asyncio.create_task(readers.call("a", lambda: "read"))
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait({task})
            await asyncio.sleep(0.002)
            assert await readers.call("a", lambda: "read") == "read"

    asyncio.run(run())


class Counting:
    """Calls that note how many of them run at a time."""

    def __init__(self, seconds: float = 0.02) -> None:
        self._seconds, self._lock, self._running = seconds, Lock(), 0
        self.most = self.made = 0

    def __call__(self) -> None:
        with self._lock:
            self._running += 1
            self.made += 1
            self.most = max(self.most, self._running)
        time.sleep(self._seconds)
        with self._lock:
            self._running -= 1


@pytest.mark.parametrize(("readers", "calls"), [(1, 20), (5, 4), (20, 1)])
def test_calls_of_all_readers_begin_in_turns(readers: int, calls: int) -> None:
    """Threads that compute delay the event loop, and an emergency stop with it."""
    turns, counting = Semaphore(2), Counting()

    async def run() -> None:
        each = [Readers(20.0, turns) for _ in range(readers)]
        await asyncio.gather(*(one.call(str(number), counting) for one in each for number in range(calls)))

    asyncio.run(run())
    assert counting.most <= 2 and counting.made == 20
    assert turns.acquire(timeout=5) and turns.acquire(timeout=5), "each turn was given back once"
    assert not turns.acquire(blocking=False)


def test_a_late_call_gives_up_its_turn_once() -> None:
    turns, release = Semaphore(1), Event()

    async def run() -> None:
        readers = Readers(0.2, turns)
        with pytest.raises(TimeoutError):
            await readers.call("slow", lambda: release.wait(20))
        assert await Readers(20.0, turns).call("quick", lambda: "read") == "read"
        release.set()
        while "slow" in readers._late and "slow" not in readers._late["slow"].outcomes:
            await asyncio.sleep(0.01)

    asyncio.run(run())
    time.sleep(0.1)
    assert turns.acquire(timeout=5) and not turns.acquire(blocking=False)


def test_time_in_which_a_call_waits_for_its_turn_does_not_count() -> None:
    turns = Semaphore(0)

    async def run() -> None:
        waiting = asyncio.create_task(Readers(1.0, turns).call("a", lambda: "read"))
        await asyncio.sleep(1.2)
        turns.release()
        assert await waiting == "read"

    asyncio.run(run())


def test_a_call_that_is_cancelled_before_its_turn_is_never_made() -> None:
    turns, made = Semaphore(0), Counting()

    async def run() -> None:
        readers = Readers(20.0, turns)
        task = asyncio.create_task(readers.call("a", made))
        await asyncio.sleep(0.1)
        task.cancel()
        await asyncio.wait({task})
        turns.release()
        await asyncio.sleep(0.1)
        await readers.call("a", made)

    asyncio.run(run())
    assert made.made == 1 and turns.acquire(timeout=5)


@pytest.mark.parametrize("turns", [None, Semaphore(1)])
def test_a_call_may_have_no_time_limit(turns: Semaphore | None) -> None:
    def write() -> str:
        time.sleep(0.2)
        return "written"

    assert asyncio.run(Readers(math.inf, turns).call("a", write)) == "written"
