"""Requests of pages of ``robo-rl web``: messages with a number, whose answers have the same number."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

from ..core import RoboRLError
from .run_table import clip

MOST_REQUESTS = 64
"""Largest number of requests of a page that wait for an answer."""

Message = Mapping[str, Any]
Answer = dict[str, Any] | bytes
"""Answer to a request: a JSON object, or a JPEG file."""


class PageRequests:
    """The unanswered requests of a page, each of which is handled in its own task.

    A request is a JSON object with a ``number``, a ``request`` and its arguments. The answer has the same number: a
    JSON object, or bytes for a picture: a line with a JSON object, then a JPEG file. ``error`` is the reason why there
    is no answer.

    Args:
        page: the websocket of the page.
        group: tasks of the page.
        answer_to: returns the answer to a request, or raises the reason why there is none.
    """

    def __init__(self, page: Any, group: asyncio.TaskGroup, answer_to: Callable[[Message], Awaitable[Answer]]) -> None:
        self._page, self._group, self._answer_to = page, group, answer_to
        self._open: set[asyncio.Task[None]] = set()

    def begin(self, message: Message) -> None:
        """Handle a request. Beyond :data:`MOST_REQUESTS`, as many are refused, and further ones receive no answer."""
        if len(self._open) >= 2 * MOST_REQUESTS:
            return
        # Sent in a separate task, so that a page that does not receive can still press the emergency stop.
        task = self._group.create_task(self._answer(message, len(self._open) >= MOST_REQUESTS))
        self._open.add(task)
        task.add_done_callback(self._open.discard)

    def cancel(self) -> None:
        """Cancel the unanswered requests: the page has left."""
        for task in self._open:
            task.cancel()

    async def _answer(self, message: Message, excess: bool) -> None:
        heading = {"number": message.get("number")}
        try:
            answer = {"error": "too many requests at a time"} if excess else await self._answer_to(message)
        except (RoboRLError, OSError) as error:  # includes time-outs
            answer = {"error": clip(str(error))}
        except Exception as error:  # any error, because the files may contain anything
            answer = {"error": f"{type(error).__name__} in its files"}
        await send(self._page, answer if isinstance(answer, bytes) else heading | answer, heading)


async def send(page: Any, message: Message | bytes, heading: Message | None = None) -> None:
    """Send a JSON object, or a picture after its heading, unless the page has left."""
    from websockets.exceptions import ConnectionClosed

    data = json.dumps(heading).encode() + b"\n" + message if isinstance(message, bytes) else json.dumps(message)
    with suppress(ConnectionClosed):
        await page.send(data)
