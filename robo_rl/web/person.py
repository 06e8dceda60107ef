"""The page on which a person drives a robot. A thread serves it, so that nothing waits for a network."""

import asyncio
import json
import math
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import MappingProxyType
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

FILES = (
    *("drive.js", "drive.css", "figures.js", "keyboard.js", "pads.js", "pose.js", "views.js"),
    *("held.js", "link.js", "page.css", "icon.svg"),
)
PAGES = {"/": "drive.html"} | {f"/{name}": name for name in FILES}
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
MOST_TIME = 1e15
"""Largest time that is sent back to the page that sent it [ms]."""
JPEG_QUALITY = 80


class _Input(NamedTuple):
    """Axes, held buttons, and the time of the page's message."""

    axes: dict[str, float]
    held: frozenset[str]
    stamp_ns: int


class _Display(NamedTuple):
    """Content of the page: pictures by camera, lines of text, and whether the gripper is closed."""

    pictures: Mapping[str, NDArray[np.uint8]] = MappingProxyType({})
    lines: Sequence[str] = ()
    closed: bool | None = None


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
    it again. ``{"ping": number}`` in a message is answered by ``{"pong": number}``, which measures the round trip.
    While latches hold the robot still, the page receives them as ``held``, and the page that drives may release what it
    shows, once the person has confirmed it: ``{"command": "rearm", "seen": held}``.

    Args:
        config: address and keys of the page.
        about: facts about the robot for the page: ``task``, the ``elements`` of its action and, for cameras whose pose
            is known, ``headings``: what is upwards in their pictures, as an angle from x to y of the base frame [rad].
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
        self._display = _Display()
        self._connection: ServerConnection | None = None
        title = f"Drive {about.get('task', 'the robot')}"
        self._server = PageServer(config, PAGES, self._handle, notify, MESSAGE_BYTES, title=title)
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

    def describe(self, **facts: Any) -> None:
        """Add JSON values to the facts about the robot; pages that are open receive them, too."""
        self._about = {**self._about, **facts}
        self._refresh()

    def show(self, pictures: Mapping[str, NDArray[np.uint8]], lines: list[str], closed: bool | None = None) -> None:
        """Show pictures (height, width, channels) by camera, lines of text, and whether the gripper is closed.

        The first camera is the main one. ``closed`` is None if there is no gripper, or its state is unknown. A slow
        page receives fewer pictures.
        """
        self._display = _Display(pictures, lines, closed)
        self._refresh()

    def close(self) -> None:
        """Stop the server. May be called twice."""
        self._thread.close()

    # --- the thread --------------------------------------------------------------------------------------------------

    def _wake(self) -> None:
        self._changed.set()

    def _refresh(self) -> None:
        """Have the newest facts and display sent; called by other threads."""
        self._thread.call(self._wake)

    async def _handle(self, connection: ServerConnection) -> None:
        previous, self._connection = self._connection, connection
        self._forget()
        self._changed = changed = asyncio.Event()
        try:
            async with asyncio.TaskGroup() as group:
                if previous is not None:  # a dead one takes a while to close, and this one may have an emergency
                    group.create_task(previous.close(TAKEN, "another page drives"))
                showing = [
                    group.create_task(self._send_updates(connection, changed)),
                    group.create_task(send_held(connection, self._latches)),
                ]
                pong: asyncio.Task[None] | None = None
                async for data in connection:
                    message, drives = read_message(data), self._connection is connection
                    if _is_time(ping := message.get("ping")) and (pong is None or pong.done()):  # one at a time
                        pong = group.create_task(send(connection, {"pong": ping}))
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
            sent: dict[str, Any] = {}
            while True:
                display = self._display
                facts = {"about": self._about, "lines": display.lines, "closed": display.closed}
                for name, value in facts.items():
                    if name not in sent or value != sent[name]:
                        await connection.send(json.dumps({name: value}))
                sent = facts
                for camera, picture in display.pictures.items():
                    heading = json.dumps({"camera": camera}).encode()
                    await connection.send(heading + b"\n" + await asyncio.to_thread(jpeg, picture))
                await _wait_for_change(connection, changed)


async def _wait_for_change(connection: ServerConnection, changed: asyncio.Event) -> None:
    """Wait until there is something new to send; the page is told every second that the connection lives."""
    while True:
        try:
            async with asyncio.timeout(ALIVE_SECONDS):
                await changed.wait()
        except TimeoutError:
            await connection.send(json.dumps({"alive": True}))
            continue
        changed.clear()
        return


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


def _is_time(value: object) -> bool:
    """Return whether ``value`` is a time of a page, which it may send to measure the round trip."""
    return isinstance(value, float | int) and abs(value) < MOST_TIME


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
    """Return the newest picture of (height, width, 3 n), RGB, or (height, width, 1), grey, as JPEG."""
    colours = picture if picture.shape[2] == 1 else cv2.cvtColor(picture[..., -3:], cv2.COLOR_RGB2BGR)
    return bytes(cv2.imencode(".jpg", colours, (cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY))[1])
