"""A server in a thread of its own."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Generic, Protocol, TypeVar


class Serving(Protocol):
    """A server that serves within a context."""

    def serving(self) -> AbstractAsyncContextManager[None]: ...


AnyServer = TypeVar("AnyServer", bound=Serving)


class ServerThread(Generic[AnyServer]):
    """A server that serves from the start of its thread until :meth:`stop`.

    Args:
        make_server: makes the server, within the event loop of the thread.

    Attributes:
        server: the server.
    """

    def __init__(self, make_server: Callable[[], AnyServer]) -> None:
        ready, self._loop = threading.Event(), asyncio.new_event_loop()

        async def serve() -> None:
            self.server, self._ended = make_server(), asyncio.Event()
            async with self.server.serving():
                ready.set()
                await self._ended.wait()

        self._thread = threading.Thread(target=lambda: self._loop.run_until_complete(serve()))
        self._thread.start()
        assert ready.wait(60)

    def stop(self) -> None:
        """End the server and its thread."""
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join()
        self._loop.close()
