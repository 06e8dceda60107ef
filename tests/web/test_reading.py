"""Calls that read files beside an event loop, and their cancellation."""

import asyncio
import contextlib
import time

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
        readers = Readers(1.0)
        for _ in range(50):
            task = asyncio.create_task(readers.call("a", lambda: "read"))
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait({task})
            await asyncio.sleep(0.002)
            assert await readers.call("a", lambda: "read") == "read"

    asyncio.run(run())
