"""A server of pages in a thread, so that neither a robot nor a simulation waits for a network."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

from .server import PageServer


class ThreadedServer:
    """A thread in which a server serves until :meth:`close`.

    Args:
        server: server that serves nowhere else.

    Raises:
        ConfigError: if the address is not available.
    """

    _failure: Exception | None = None

    def __init__(self, server: PageServer) -> None:
        self._server = server
        self._loop = asyncio.new_event_loop()
        self._ending = asyncio.Event()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="page", daemon=True)
        self._thread.start()
        self._ready.wait()
        failure, self._failure = self._failure, None
        if failure is not None:
            self._thread.join()
            self._loop.close()
            raise failure

    def call(self, function: Callable[..., object], *arguments: Any) -> None:
        """Call a function in the thread, soon; after :meth:`close`, do nothing."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(function, *arguments)

    def close(self) -> None:
        """Stop the server. May be called twice."""
        if self._loop.is_closed():
            return
        self.call(self._ending.set)
        self._thread.join()
        self._loop.close()

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        except Exception as error:  # of any kind: the constructor, which waits for the thread, raises it again
            self._failure = error
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        async with self._server.serving():
            self._ready.set()
            await self._ending.wait()
