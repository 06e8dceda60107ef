"""The page on which a person drives a robot. A thread serves it, so that nothing waits for a network."""

import asyncio
import json
import math
import threading
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, Protocol

import cv2
import numpy as np
from numpy.typing import NDArray
from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed

from robo_rl.core import Clock, MonotonicClock

from .config import WebConfig
from .server import PageServer, read_message
from .threaded import ThreadedServer

PAGES = {"/": "drive.html"} | {f"/{name}": name for name in ("drive.js", "held.js", "link.js", "page.css", "icon.svg")}
AXES = ("x", "y", "z", "roll", "pitch", "yaw", "steering", "throttle")
BUTTONS = ("gripper", "deadman", "success", "failure", "discard", "pause", "stop", "emergency_stop")
"""Buttons that a page may send; others are ignored, as are axes that are not listed above."""
TAKEN = 4409
"""Code that closes a websocket because the person drives from another page."""
EMERGENCY = frozenset({"emergency_stop"})
"""Buttons that count even if the page has left, or another page drives."""
ALIVE_SECONDS = 1.0
HELD_SECONDS = 0.25
"""Time between two looks at the latches that hold the robot still."""
MESSAGE_BYTES = 16384
"""Largest message of a page: the latches that a person releases, with their reasons."""
JPEG_QUALITY = 80


class _Input(NamedTuple):
    """Axes, held buttons, and the time of the page's message."""

    axes: dict[str, float]
    held: frozenset[str]
    stamp_ns: int


class Latches(Protocol):
    """The latches that hold the robot still, and their release."""

    async def held(self) -> list[dict[str, str]]:
        """Return ``what`` is latched, and the ``reason``, of each latch."""
        ...

    def rearm(self, answer: Callable[[Mapping[str, Any]], Awaitable[None]], seen: object) -> None:
        """Release the latches ``seen``, as :meth:`held` returned them; ``answer`` is called with the result."""
        ...


class PersonPage:
    """A server of the page that keeps its latest message and shows it pictures. Of several pages, the newest drives.

    A page sends ``{"axes": {name: deflection}, "held": [button], "tapped": [button]}``, many times a second. It
    receives ``{"heard": ["emergency_stop"]}`` after the emergency stop was pressed; otherwise it reconnects and sends
    it again. While latches hold the robot still, it receives them as ``held``, and the page that drives may release
    what it shows, once the person has confirmed it: ``{"command": "rearm", "seen": held}``.

    Args:
        config: address and keys of the page.
        about: facts about the robot for the page: ``task`` and the ``elements`` of its action.
        notify: reports messages to operators.
        clock: monotonic time.
        emergency_stop: called at once, whatever the control loop does; returns why robots are not stopped, or an empty
            text if they are. None: the press is only returned as a button.
        latches: what holds the robot still; None: nothing is shown or released.

    Raises:
        ConfigError: if the address is not available, or keys or token cannot be read.
    """

    def __init__(
        self,
        config: WebConfig,
        about: Mapping[str, Any],
        notify: Callable[[str], None] = print,
        clock: Clock | None = None,
        emergency_stop: Callable[[], str] | None = None,
        latches: Latches | None = None,
    ) -> None:
        self._latches = latches
        self._clock = clock or MonotonicClock()
        self._about = dict(about)
        self._emergency_stop = emergency_stop
        self._lock = threading.Lock()
        self._input: _Input | None = None
        self._tapped: set[str] = set()
        self._display: tuple[NDArray[np.uint8] | None, list[str]] = (None, [])
        self._connection: ServerConnection | None = None
        self._server = PageServer(config, PAGES, self._handle, notify, MESSAGE_BYTES)
        self._changed = asyncio.Event()
        self._thread = ThreadedServer(self._server)

    @property
    def link(self) -> str:
        """Address of the page with the token: anyone who has it can drive."""
        return self._server.link

    def poll(self, timeout: float) -> tuple[Mapping[str, float] | None, frozenset[str], frozenset[str]]:
        """Return axes, held buttons, and the buttons that were tapped since the last call.

        Axes are None, and no button is held, if no page has sent a message within ``timeout`` [s].
        """
        with self._lock:
            latest, tapped, self._tapped = self._input, self._tapped, set()
        if latest is None or self._clock.now_ns() - latest.stamp_ns > timeout * 1e9:
            return None, frozenset(), frozenset(tapped)
        return latest.axes, latest.held, frozenset(tapped)

    def show(self, picture: NDArray[np.uint8] | None, lines: list[str]) -> None:
        """Show a picture (height, width, 3) and lines of text. A slow page receives fewer of them."""
        self._display = picture, lines
        self._thread.call(self._wake)

    def close(self) -> None:
        """Stop the server. May be called twice."""
        self._thread.close()

    # --- the thread --------------------------------------------------------------------------------------------------

    def _wake(self) -> None:
        self._changed.set()

    async def _handle(self, connection: ServerConnection) -> None:
        previous, self._connection = self._connection, connection
        self._forget()
        # A new event, already set: a page that connects receives the latest picture at once.
        self._changed = changed = asyncio.Event()
        changed.set()
        try:
            async with asyncio.TaskGroup() as group:
                if previous is not None:  # a dead one takes a while to close, and this one may have an emergency
                    group.create_task(previous.close(TAKEN, "another page drives"))
                showing = [
                    group.create_task(self._send_updates(connection, changed)),
                    group.create_task(send_held(connection, self._latches)),
                ]
                async for data in connection:
                    message, drives = read_message(data), self._connection is connection
                    if message.get("command") == "rearm":
                        self._rearm(connection, message.get("seen"), drives)
                    elif self._receive(message, drives):
                        group.create_task(send(connection, {"heard": sorted(EMERGENCY)}))
                for task in showing:
                    task.cancel()
        finally:
            if self._connection is connection:
                self._connection = None
                self._forget()

    def _forget(self) -> None:
        with self._lock:
            self._input, self._tapped = None, self._tapped & EMERGENCY

    def _receive(self, message: Mapping[str, Any], drives: bool) -> bool:
        """Process a page's message; return whether it tapped the emergency stop, which is then pressed."""
        axes, held, tapped = (
            _deflections(message.get("axes")),
            _valid_buttons(message.get("held")),
            _valid_buttons(message.get("tapped")),
        )
        pressed = bool(tapped & EMERGENCY)
        problem = self._emergency_stop() if pressed and self._emergency_stop is not None else ""
        with self._lock:
            if drives:
                self._input = _Input(axes, held, self._clock.now_ns())
            self._tapped |= tapped if drives else tapped & EMERGENCY
        return pressed and not problem

    def _rearm(self, connection: ServerConnection, seen: object, drives: bool) -> None:
        """Release what the person has seen and confirmed; a page whose role another one has taken releases nothing."""
        if drives and self._latches is not None:
            self._latches.rearm(partial(send, connection), seen)

    async def _send_updates(self, connection: ServerConnection, changed: asyncio.Event) -> None:
        with suppress(ConnectionClosed):  # messages that the page sent before it left are still to be received
            await connection.send(json.dumps({"about": self._about}))
            await self._send_display(connection, changed)

    async def _send_display(self, connection: ServerConnection, changed: asyncio.Event) -> None:
        sent: list[str] = []
        while True:
            try:
                async with asyncio.timeout(ALIVE_SECONDS):
                    await changed.wait()
            except TimeoutError:
                await connection.send(json.dumps({"alive": True}))
                continue
            changed.clear()
            picture, lines = self._display
            if lines != sent:
                sent = lines
                await connection.send(json.dumps({"lines": lines}))
            if picture is not None:
                await connection.send(b"{}\n" + await asyncio.to_thread(jpeg, picture))


async def send(connection: ServerConnection, message: Mapping[str, Any]) -> None:
    """Send a message to a page, or to nobody if the page has left."""
    with suppress(ConnectionClosed):  # a page that reconnects asks again
        await connection.send(json.dumps(message))


async def send_held(connection: ServerConnection, latches: Latches | None) -> None:
    """Send what holds the robot still to a page whenever it has changed, until the page leaves."""
    sent: list[dict[str, str]] | None = None
    while latches is not None:
        if (held := await latches.held()) != sent:
            sent = held
            await send(connection, {"held": held})
        await asyncio.sleep(HELD_SECONDS)


def _deflections(value: object) -> dict[str, float]:
    """Return the deflections in ``value`` by axis, in [-1, 1]; invalid ones are left out."""
    entries = value if isinstance(value, dict) else {}
    # Limited before the conversion: an integer may be too large for a float.
    limited = {
        name: float(min(max(entries[name], -1), 1)) for name in AXES if isinstance(entries.get(name), int | float)
    }
    return {name: number for name, number in limited.items() if not math.isnan(number)}


def _valid_buttons(names: object) -> frozenset[str]:
    return frozenset(name for name in BUTTONS if isinstance(names, list) and name in names)


def jpeg(picture: NDArray[np.uint8]) -> bytes:
    """Return the newest RGB picture of (height, width, 3 n) as JPEG."""
    colours = cv2.cvtColor(picture[..., -3:], cv2.COLOR_RGB2BGR)
    return bytes(cv2.imencode(".jpg", colours, (cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY))[1])
