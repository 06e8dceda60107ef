"""The event loop of commands that serve others until a signal ends them."""

import asyncio
import signal
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..web.server import PageServer


def run_until_signal(server: Coroutine[Any, Any, None]) -> None:
    """Run ``server`` in an event loop until Ctrl-C or SIGTERM cancels it, and close its connections.

    An exception that a signal's handler raised in the middle of a connection would end that connection with an error,
    and leave the others open.

    Raises:
        SystemExit: with code 143 after SIGTERM.
        KeyboardInterrupt: after Ctrl-C.
    """
    if threading.current_thread() is not threading.main_thread():  # signals go to the main thread
        asyncio.run(server)
        return
    previous, terminated = signal.getsignal(signal.SIGTERM), False

    async def serve() -> None:
        task = asyncio.ensure_future(server)

        def end() -> None:
            nonlocal terminated
            terminated = True
            task.cancel()

        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, end)
        try:
            await task
        except asyncio.CancelledError:
            if not terminated:
                raise

    try:
        asyncio.run(serve())
    finally:
        signal.signal(signal.SIGTERM, previous)
    if terminated:
        raise SystemExit(128 + signal.SIGTERM)


@contextmanager
def serving_in_thread(server: "PageServer") -> Iterator["PageServer"]:
    """Serve in a thread for the block, because a simulator renders in the main thread."""
    loop, ending, ready = asyncio.new_event_loop(), asyncio.Event(), threading.Event()
    failures: list[Exception] = []

    async def serve() -> None:
        try:
            async with server.serving():
                ready.set()
                await ending.wait()
        except Exception as error:  # raised again in the main thread
            failures.append(error)
        finally:
            ready.set()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()), name="page", daemon=True)
    thread.start()
    ready.wait()
    try:
        if failures:
            raise failures[0]
        yield server
    finally:
        loop.call_soon_threadsafe(ending.set)
        thread.join()
        loop.close()
