"""A page by which a person drives a robot. It is served from a thread, so that nothing waits for a network."""

import asyncio
import json
import math
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray
from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed

from robo_rl.core import Clock, MonotonicClock

from .config import WebConfig
from .server import PageServer, read_message

PAGES = {"/": "drive.html"} | {f"/{name}": name for name in ("drive.js", "link.js", "page.css", "icon.svg")}
AXES = ("x", "y", "z", "roll", "pitch", "yaw", "steering", "throttle")
BUTTONS = ("gripper", "deadman", "success", "failure", "discard", "pause", "stop", "emergency_stop")
"""What a page may say; anything else is ignored."""
TAKEN = 4409
"""Code with which a websocket is closed: the person drives from another page."""
EMERGENCY = frozenset({"emergency_stop"})
"""What a page has said even if it is gone, or another drives."""
ALIVE_SECONDS = 1.0
JPEG_QUALITY = 80


class _Said(NamedTuple):
    """Axes, buttons that are held, and when the page said so."""

    axes: dict[str, float]
    held: frozenset[str]
    stamp_ns: int


class PersonPage:
    """Serves the page, keeps what it said last, and shows it pictures. One page drives at a time: the newest.

    A page says ``{"axes": {name: deflection}, "held": [button], "tapped": [button]}``, many times a second. It is told
    ``{"heard": ["emergency_stop"]}`` after the emergency stop was pressed: otherwise it says so again, anew connected.

    Args:
        config: where it is served, and with which keys.
        about: what the page is to know of the robot: ``task`` and the ``elements`` of its action.
        say: tells people what they should know.
        clock: monotonic time.
        emergency_stop: pressed at once, whatever the control loop does; returns why robots are not stopped, nothing
            where they are. None: the button alone is told.

    Raises:
        ConfigError: if the address cannot be listened on, or keys or token cannot be read.
    """

    def __init__(
        self,
        config: WebConfig,
        about: Mapping[str, Any],
        say: Callable[[str], None] = print,
        clock: Clock | None = None,
        emergency_stop: Callable[[], str] | None = None,
    ) -> None:
        self._clock = clock or MonotonicClock()
        self._about = dict(about)
        self._emergency_stop = emergency_stop
        self._lock = threading.Lock()
        self._said: _Said | None = None
        self._tapped: set[str] = set()
        self._shown: tuple[NDArray[np.uint8] | None, list[str]] = (None, [])
        self._connection: ServerConnection | None = None
        self._server = PageServer(config, PAGES, self._talk, say)
        self._loop = asyncio.new_event_loop()
        self._news = asyncio.Event()
        self._ends = asyncio.Event()
        self._ready = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="page", daemon=True)
        if (failure := self._start()) is not None:
            self._thread.join()
            raise failure

    def _start(self) -> Exception | None:
        """Start the thread; return why it cannot serve, None where it does."""
        self._thread.start()
        self._ready.wait()
        return self._failure

    @property
    def link(self) -> str:
        """Address of the page, with the token: whoever has it may drive."""
        return self._server.link

    def poll(self, timeout: float) -> tuple[Mapping[str, float] | None, frozenset[str], frozenset[str]]:
        """Return axes, the buttons that are held, and those that were tapped since the last call.

        Axes are None, and nothing is held, where no page has said anything within ``timeout`` [s].
        """
        with self._lock:
            said, tapped, self._tapped = self._said, self._tapped, set()
        if said is None or self._clock.now_ns() - said.stamp_ns > timeout * 1e9:
            return None, frozenset(), frozenset(tapped)
        return said.axes, said.held, frozenset(tapped)

    def show(self, picture: NDArray[np.uint8] | None, lines: list[str]) -> None:
        """Show a picture (height, width, 3) and lines of text. A page that is slow gets fewer."""
        self._shown = picture, lines
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake)

    def close(self) -> None:
        """End the server. May be called twice."""
        if self._loop.is_closed():
            return
        self._loop.call_soon_threadsafe(self._ends.set)
        self._thread.join()
        self._loop.close()

    # --- the thread --------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        except Exception as error:  # the constructor, which waits, raises it
            self._failure = error
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        async with self._server.serving():
            self._ready.set()
            await self._ends.wait()

    def _wake(self) -> None:
        self._news.set()

    async def _talk(self, connection: ServerConnection) -> None:
        before, self._connection = self._connection, connection
        self._forget()
        # One of its own, set: a page that comes is shown at once what was shown last.
        self._news = news = asyncio.Event()
        news.set()
        try:
            async with asyncio.TaskGroup() as group:
                if before is not None:  # a dead one takes a while to close, and this one has an emergency perhaps
                    group.create_task(before.close(TAKEN, "another page drives"))
                showing = group.create_task(self._tell(connection, news))
                async for data in connection:
                    if self._hear(read_message(data), drives=self._connection is connection):
                        group.create_task(self._confirm(connection))
                showing.cancel()
        finally:
            if self._connection is connection:
                self._connection = None
                self._forget()

    def _forget(self) -> None:
        with self._lock:
            self._said, self._tapped = None, self._tapped & EMERGENCY

    def _hear(self, message: Mapping[str, Any], drives: bool) -> bool:
        """Take note of what a page says; return whether the emergency stop was tapped, which is pressed by then."""
        axes, held, tapped = (
            _deflections(message.get("axes")),
            _known(message.get("held")),
            _known(message.get("tapped")),
        )
        pressed = bool(tapped & EMERGENCY)
        problem = self._emergency_stop() if pressed and self._emergency_stop is not None else ""
        with self._lock:
            if drives:
                self._said = _Said(axes, held, self._clock.now_ns())
            self._tapped |= tapped if drives else tapped & EMERGENCY
        return pressed and not problem

    async def _confirm(self, connection: ServerConnection) -> None:
        with suppress(ConnectionClosed):  # it asks again
            await connection.send(json.dumps({"heard": sorted(EMERGENCY)}))

    async def _tell(self, connection: ServerConnection, news: asyncio.Event) -> None:
        with suppress(ConnectionClosed):  # what the page said before it left is still to be heard
            await connection.send(json.dumps({"about": self._about}))
            await self._show(connection, news)

    async def _show(self, connection: ServerConnection, news: asyncio.Event) -> None:
        told: list[str] = []
        while True:
            try:
                async with asyncio.timeout(ALIVE_SECONDS):
                    await news.wait()
            except TimeoutError:
                await connection.send(json.dumps({"alive": True}))
                continue
            news.clear()
            picture, lines = self._shown
            if lines != told:
                told = lines
                await connection.send(json.dumps({"lines": lines}))
            if picture is not None:
                await connection.send(b"{}\n" + await asyncio.to_thread(_jpeg, picture))


def _deflections(value: object) -> dict[str, float]:
    """Return the deflections in ``value`` by axis, in [-1, 1]; what is none is left out."""
    said = value if isinstance(value, dict) else {}
    # Limited before they are converted: an integer may be too large for a float.
    limited = {name: float(min(max(said[name], -1), 1)) for name in AXES if isinstance(said.get(name), int | float)}
    return {name: number for name, number in limited.items() if not math.isnan(number)}


def _known(names: object) -> frozenset[str]:
    return frozenset(name for name in BUTTONS if isinstance(names, list) and name in names)


def _jpeg(picture: NDArray[np.uint8]) -> bytes:
    colours = cv2.cvtColor(picture[..., -3:], cv2.COLOR_RGB2BGR)
    return bytes(cv2.imencode(".jpg", colours, (cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY))[1])
