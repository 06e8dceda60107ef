"""A TCP proxy whose connections can be cut or swallow what they are given: a network that fails when it is told to."""

import asyncio
import contextlib
import threading
import time


class TcpProxy:
    """Passes bytes between whoever connects to ``port`` and ``target``, in a thread of its own.

    Args:
        target: port on this machine.
    """

    def __init__(self, target: int) -> None:
        self._target = target
        self._loop = asyncio.new_event_loop()
        self._connections: set[asyncio.StreamWriter] = set()
        self._dead_until = 0.0
        self._swallows = False
        self._forgotten: set[asyncio.StreamWriter] = set()
        self._server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.port: int = self._server.sockets[0].getsockname()[1]
        self._thread = threading.Thread(target=self._loop.run_forever, name="tcp-proxy", daemon=True)
        self._thread.start()

    def cut(self, seconds: float) -> None:
        """End all connections, and let none last for a time [s]."""
        self._dead_until = time.monotonic() + seconds
        self._loop.call_soon_threadsafe(self._abort)

    def swallow(self) -> None:
        """Let all connections last, new ones too, and pass nothing more: nobody is told that the network is gone."""
        self._swallows = True

    def mend(self) -> None:
        """Pass the bytes of new connections again. Those of before are forgotten, as by a router that was restarted."""
        self._forgotten |= self._connections
        self._swallows = False

    def close(self) -> None:
        """End everything."""
        self._loop.call_soon_threadsafe(self._abort)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _abort(self) -> None:
        for connection in self._connections:
            connection.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        other: asyncio.StreamWriter | None = None
        self._connections.add(writer)
        with contextlib.suppress(OSError):
            if time.monotonic() >= self._dead_until:
                other_reader, other = await asyncio.open_connection("127.0.0.1", self._target)
                self._connections.add(other)
                pumps = [asyncio.ensure_future(self._pump(*pair)) for pair in ((reader, other), (other_reader, writer))]
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
                if self._swallows or writer in self._forgotten:  # nor is one end told that the other has closed
                    await asyncio.wait(pumps)
                for pump in pumps:
                    pump.cancel()
        for connection in (writer, other):
            if connection is not None:
                self._connections.discard(connection)
                connection.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                if self._swallows or writer in self._forgotten:
                    continue
                writer.write(data)
                await writer.drain()
