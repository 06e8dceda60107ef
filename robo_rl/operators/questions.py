"""Server of chat completions over HTTP, at which a person answers questions meant for a vision-language model."""

import base64
import binascii
import json
import queue
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from ..core import ConfigError

LARGEST_QUESTION = 64 << 20
PNG = "data:image/png;base64,"
LOOK_SECONDS = 1.0
"""Interval between two checks whether the client is still connected [s]."""


@dataclass(frozen=True)
class Question:
    """Question of a client.

    Attributes:
        parts: texts and pictures (PNG) in order.
        form: choices for answering without typing, as sent by the client; see :func:`read_form`.
        answer: receives the answer; cancelled when the client has disconnected.
    """

    parts: list[str | bytes]
    form: dict[str, Any]
    answer: "Future[str]"

    def give(self, text: str) -> bool:
        """Answer the question; return whether the client is still connected."""
        if not self.answer.set_running_or_notify_cancel():
            return False
        self.answer.set_result(text)
        return True


class QuestionServer(ThreadingHTTPServer):
    """Server for questions from this machine alone; each question waits for its answer in its own thread."""

    def __init__(self, port: int) -> None:
        self.questions: queue.SimpleQueue[Question] = queue.SimpleQueue()
        self.answers: list[Future[str]] = []
        super().__init__(("127.0.0.1", port), _Handler)


class _Handler(BaseHTTPRequestHandler):
    server: "QuestionServer"

    def do_POST(self) -> None:
        try:
            parts = self._parts()
        except ValueError as error:
            self._reply(400, {"error": {"message": str(error)}})
            return
        question = Question(parts, read_form(self.headers.get("Answer-Form", "{}")), Future())
        self.server.answers.append(question.answer)
        self.server.questions.put(question)
        try:
            answer = self._wait(question.answer)
        except CancelledError:
            self._reply(503, {"error": {"message": "there is nobody left to answer"}})
            return
        message = {"role": "assistant", "content": answer}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
        facts = {"id": "person", "object": "chat.completion", "created": int(time.time()), "model": "person"}
        self._reply(200, facts | {"choices": [choice], "usage": usage})

    def _wait(self, answer: "Future[str]") -> str:
        """Return the answer.

        Raises:
            CancelledError: if there will be no answer, or the client has disconnected.
        """
        while True:
            try:
                return answer.result(LOOK_SECONDS)
            except TimeoutError:
                if self._is_alone():
                    answer.cancel()

    def _is_alone(self) -> bool:
        """Return whether the client has closed the connection."""
        try:
            return not self.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except ConnectionError:
            return True

    def _parts(self) -> list[str | bytes]:
        # A page in a browser cannot send this content type without a preflight request, which is not answered.
        if self.path != "/v1/chat/completions" or self.headers.get("Content-Type") != "application/json":
            raise ValueError("expected JSON at /v1/chat/completions")
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > LARGEST_QUESTION:
            raise ValueError(f"expected a Content-Length of at most {LARGEST_QUESTION}")
        return read_parts(self.rfile.read(int(length)))

    def _reply(self, status: int, content: dict[str, Any]) -> None:
        data = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        with suppress(ConnectionError):  # the client may have disconnected
            self.end_headers()
            self.wfile.write(data)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Print nothing, because requests would appear among the questions."""


@contextmanager
def serving(port: int) -> Iterator[QuestionServer]:
    """Serve chat completions on this machine alone; yield the server, which queues the questions.

    Args:
        port: port number; 0 for any free port.

    Raises:
        ConfigError: if the port is taken.
    """
    try:
        server = QuestionServer(port)
    except OSError as error:
        raise ConfigError(f"port {port} cannot be used: {error.strerror}; choose another, or 0 for any") from error
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        for answer in server.answers:
            answer.cancel()
        server.shutdown()
        server.server_close()


def read_form(header: str) -> dict[str, Any]:
    """Return the JSON content of the header ``Answer-Form``; an empty form if it cannot be parsed.

    ``{"choices": [[answer, label], ...]}``: one of these; ``{"grid": n}``: a list of cells [column, row], counted from
    1, of a picture that is divided into n by n cells.
    """
    try:
        content = json.loads(header)
        found: dict[str, Any] = {}
        if "choices" in content:
            found["choices"] = [[str(answer), str(label)] for answer, label in content["choices"]]
        if "grid" in content:
            found["grid"] = int(content["grid"])
    except (ValueError, TypeError, OverflowError, RecursionError):
        return {}
    return found


def read_parts(body: bytes) -> list[str | bytes]:
    """Return the texts and pictures of a chat completion's messages.

    Raises:
        ValueError: if it is not a chat completion, or a picture is not a PNG within the request.
    """
    try:
        contents = [message["content"] for message in json.loads(body)["messages"]]
        parts: list[str | bytes] = []
        for content in contents:
            if isinstance(content, str):
                parts.append(content)
                continue
            for part in content:
                if part["type"] == "text":
                    parts.append(str(part["text"]))
                    continue
                url = part["image_url"]["url"]
                if not url.startswith(PNG):
                    raise ValueError(f"expected a picture as {PNG}..., got {url[:40]!r}")
                parts.append(base64.b64decode(url.removeprefix(PNG), validate=True))
    except (KeyError, TypeError, AttributeError, RecursionError, binascii.Error) as error:
        raise ValueError(f"expected messages of texts and pictures: {type(error).__name__} {error}") from error
    return parts
