"""The event loop of commands that serve others until a signal ends them."""

import asyncio
import signal
import threading
from collections.abc import Coroutine
from typing import Any


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
