"""The page of a bring-up: a list of its checks, pictures, announcements and questions. A thread serves it."""

import asyncio
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from websockets.asyncio.server import ServerConnection

from ..telemetry import Console
from ..web import WebConfig
from ..web.person import Latches, jpeg, send, send_held
from ..web.server import ENDED, PageServer, read_message
from ..web.threaded import ThreadedServer
from .checks import Check
from .dialog import DIRECTIONS, START, Pictures, TerminalDialog
from .page_address import link_text

PAGES = {"/": "setup.html"} | {f"/{name}": name for name in ("setup.js", "held.js", "link.js", "page.css", "icon.svg")}
MESSAGE_BYTES = 16384
"""Largest message of a page: the latches that the operator releases, with their reasons."""
LOOK_SECONDS = 0.2
"""Interval between two checks for changes, and so between two pictures of a camera [s]."""
ALIVE_SECONDS = 1.0
ENDING_SECONDS = 5.0
"""Longest wait until pages have received everything at the end [s]."""
EMERGENCY = "emergency_stop"


class _Question(NamedTuple):
    """A question: its number, the message for pages, and the answer."""

    number: int
    message: str
    answer: "Future[str]"

    def give(self, text: str) -> None:
        """Answer it, unless it is answered already."""
        if not self.answer.done():
            self.answer.set_result(text)


class SetupPage(TerminalDialog):
    """A dialog on a page. The terminal displays the same; it asks nothing.

    A page receives everything from the beginning, also after a reconnection: ``{"about": facts}``, then
    ``{"announcement": text}``, ``{"check": {name, outcome, text}}`` and ``{"result": text}``; and the open question,
    ``{"question": {number, kind, text, choices}}``, or null. Pictures are JPEG after a line ``{"camera": name}``. It
    sends ``{"question": number, "answer": text}``; of several answers the first counts. Emergency stop and re-arming
    are those of the page for driving.

    Args:
        console: the terminal.
        config: address and keys of the page.
        about: facts about the robot: ``robot`` and ``task``.
        press: the emergency stop, called at once; returns why robots are not stopped, or an empty text if they are.
            None: there is no such button.
        latches: what holds the robot still.

    Raises:
        ConfigError: if the address is not available, or keys or token cannot be read.
    """

    def __init__(
        self,
        console: Console,
        config: WebConfig,
        about: Mapping[str, str],
        press: Callable[[], str] | None,
        latches: Latches,
    ) -> None:
        super().__init__(console)
        self._press, self._latches = press, latches
        self._events = [json.dumps({"about": {**about, "stops": press is not None}})]
        self._question: _Question | None = None
        self._questions = 0
        self._pictures: dict[str, tuple[int, NDArray[np.uint8]]] = {}
        self._is_ending = False
        self._open_pages = 0
        self._nobody = threading.Event()
        self._nobody.set()
        title = f"Check robot {about.get('robot', '')}".rstrip()
        self._server = PageServer(config, PAGES, self._talk, print, MESSAGE_BYTES, title=title)
        self._thread = ThreadedServer(self._server)
        rights = "let the robot move, stop it and re-arm it"
        print(f"Open {link_text(self.link, config)}\nAnyone with this address can {rights}.", flush=True)

    @property
    def link(self) -> str:
        """Address of the page with the token."""
        return self._server.link

    def announce(self, text: str) -> None:
        super().announce(text)
        self._events.append(json.dumps({"announcement": text}))

    def add(self, check: Check) -> None:
        super().add(check)
        about = {"name": check.name, "outcome": check.outcome, "text": check.text}
        self._events.append(json.dumps({"check": about}))

    def show(self, pictures: Pictures) -> None:
        for name, picture in pictures.items():
            number, _ = self._pictures.get(name, (0, None))
            self._pictures[name] = number + 1, picture

    def confirm_start(self) -> bool:
        self._ask("start", f"{START}.")
        return True

    def differing_axes(self, axes: Sequence[str]) -> str | None:
        return self._ask("directions", f"{DIRECTIONS}?", axes)

    def end(self, text: str, waits: bool) -> None:
        super().end(text, waits)
        self._events.append(json.dumps({"result": text}))
        if waits:
            self._console.print("Choose Done on the page, or press Ctrl-C here")
            self._ask("end", text)

    def close(self) -> None:
        self._is_ending = True
        self._nobody.wait(ENDING_SECONDS)
        self._thread.close()

    def _ask(self, kind: str, text: str, choices: Sequence[str] = ()) -> str:
        """Return the answer that a page sends."""
        self._questions += 1
        content = {"number": self._questions, "kind": kind, "text": text, "choices": list(choices)}
        answer: Future[str] = Future()
        self._question = _Question(self._questions, json.dumps({"question": content}), answer)
        try:
            return answer.result()
        finally:
            self._question = None

    # --- the thread --------------------------------------------------------------------------------------------------

    async def _talk(self, connection: ServerConnection) -> None:
        self._open_pages += 1
        self._nobody.clear()
        try:
            async with asyncio.TaskGroup() as group:
                showing = group.create_task(self._show_all(connection))
                holds = group.create_task(send_held(connection, self._latches))
                async for data in connection:
                    if (answer := self._receive(connection, read_message(data))) is not None:
                        group.create_task(send(connection, answer))
                for task in (showing, holds):
                    task.cancel()
        finally:
            self._open_pages -= 1
            if not self._open_pages:
                self._nobody.set()

    def _receive(self, connection: ServerConnection, message: Mapping[str, Any]) -> dict[str, Any] | None:
        """Process a page's message; return what to send to it."""
        question, text = self._question, message.get("answer")
        if message.get("command") == "rearm":
            self._latches.rearm(partial(send, connection), message.get("seen"))
        elif message.get("command") == EMERGENCY and self._press is not None:
            problem = self._press()
            return {"answer": f"ROBOTS ARE NOT STOPPED: {problem}"} if problem else {"heard": [EMERGENCY]}
        elif question is not None and message.get("question") == question.number and isinstance(text, str):
            question.give(text)
        return None

    async def _show_all(self, connection: ServerConnection) -> None:
        clock = asyncio.get_running_loop().time
        events, asked_number, numbers, sent_at = 0, -1, dict[str, int](), clock()
        while True:
            is_ending, question = self._is_ending, self._question
            while events < len(self._events):
                await connection.send(self._events[events])
                events, sent_at = events + 1, clock()
            if (number := 0 if question is None else question.number) != asked_number:
                asked_number, sent_at = number, clock()
                await connection.send('{"question": null}' if question is None else question.message)
            for name, (number, picture) in list(self._pictures.items()):
                if numbers.get(name) != number:
                    numbers[name], sent_at = number, clock()
                    heading = json.dumps({"camera": name}).encode()
                    await connection.send(heading + b"\n" + await asyncio.to_thread(jpeg, picture))
            if is_ending:
                await connection.close(ENDED, "the command has ended")
                return
            if clock() - sent_at > ALIVE_SECONDS:
                sent_at = clock()
                await connection.send('{"alive": true}')
            await asyncio.sleep(LOOK_SECONDS)
