"""Web page on which a person answers questions, one after another."""

import asyncio
import json
import queue
from collections.abc import Callable

from websockets.asyncio.server import ServerConnection

from ..web import WebConfig
from ..web.server import PageServer, read_message
from .page_address import link_text
from .questions import Question

PAGES = {"/": "answer.html"} | {f"/{name}": name for name in ("answer.js", "link.js", "page.css", "icon.svg")}
MESSAGE_BYTES = 1 << 17
"""Largest message of a page [bytes]: an answer of 20,000 characters, such as reward code, of at most 6 bytes each in
JSON.
"""
LOOK_SECONDS = 0.1
"""Interval between two checks for changes [s]."""
ALIVE_SECONDS = 1.0


class AnswerPage:
    """Server of pages that display the oldest unanswered question. The first answer counts.

    A page receives ``{"question": {number, parts, form}}``, with number 0 if there is no question; parts are texts, or
    null for a picture. Pictures follow: bytes whose first line is ``{"question": number, "part": index, "type":
    "image/png"}``. A page sends ``{"question": number, "answer": text}``.

    Args:
        config: address and keys of the page.
        questions: the queue of questions.
    """

    def __init__(self, config: WebConfig, questions: "queue.SimpleQueue[Question]") -> None:
        self._config = config
        self._questions = questions
        self._server = PageServer(config, PAGES, self._talk, print, MESSAGE_BYTES, title="Answer questions")
        self._open: Question | None = None
        self._number = 0

    async def serve(self, ended: Callable[[], bool]) -> None:
        """Serve until ``ended`` returns True.

        Raises:
            ConfigError: if the address is not available.
        """
        async with self._server.serving():
            print(f"Answer at {link_text(self._server.link, self._config)}\nAnyone with this address can answer.")
            while not ended():
                if self._open is not None and self._open.answer.cancelled():
                    self._open = None
                while self._open is None and not self._questions.empty():
                    question = self._questions.get()
                    if not question.answer.cancelled():
                        self._open = question
                        self._number += 1
                await asyncio.sleep(LOOK_SECONDS)

    async def _talk(self, connection: ServerConnection) -> None:
        async with asyncio.TaskGroup() as group:
            showing = group.create_task(self._show(connection))
            async for data in connection:
                message = read_message(data)
                answer = message.get("answer")
                if self._open is not None and message.get("question") == self._number and isinstance(answer, str):
                    self._open.give(answer)
                    self._open = None
            showing.cancel()

    async def _show(self, connection: ServerConnection) -> None:
        clock = asyncio.get_running_loop().time
        sent_number, sent_at = -1, 0.0
        while True:
            question, number = self._open, 0 if self._open is None else self._number
            if number != sent_number:
                parts = [] if question is None else question.parts
                texts = [part if isinstance(part, str) else None for part in parts]
                form = {} if question is None else question.form
                sent_number, sent_at = number, clock()
                await connection.send(json.dumps({"question": {"number": number, "parts": texts, "form": form}}))
                for index, part in enumerate(parts):
                    if isinstance(part, bytes):
                        heading = {"question": number, "part": index, "type": "image/png"}
                        await connection.send(json.dumps(heading).encode() + b"\n" + part)
            elif clock() - sent_at > ALIVE_SECONDS:
                sent_at = clock()
                await connection.send(json.dumps({"alive": True}))
            await asyncio.sleep(LOOK_SECONDS)
