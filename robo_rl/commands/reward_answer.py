"""robo-rl reward answer: a person in a terminal answers what reward modules ask of a vision-language model."""

import base64
import binascii
import json
import queue
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from omegaconf import DictConfig
from rich.console import Console

from ..core import ConfigError, require
from .recording import typed

LARGEST_QUESTION = 64 << 20
PNG = "data:image/png;base64,"


@dataclass(frozen=True)
class RewardAnswerConfig:
    """configs/reward_answer.yaml, where the options and defaults are explained."""

    port: int
    pictures: str | None

    def __post_init__(self) -> None:
        require(0 <= self.port < 65536, "port", "0 to 65535", self.port)


@dataclass(frozen=True)
class Question:
    """Texts and pictures (PNG) in their order, and the place for the answer."""

    parts: list[str | bytes]
    answer: "Future[str]"


def run(config: DictConfig) -> int:
    """Ask the person until the input ends; return 0."""
    settings = typed(RewardAnswerConfig, config)
    console = Console(highlight=False)
    with tempfile.TemporaryDirectory() as folder, serving(settings.port) as server:
        pictures = Path(folder) if settings.pictures is None else Path(settings.pictures)
        pictures.mkdir(parents=True, exist_ok=True)
        console.print(f"answering at http://127.0.0.1:{server.server_port}/v1; Ctrl-C ends it", soft_wrap=True)
        for number in range(1, 1 << 62):
            try:
                question = server.questions.get()
                show(question.parts, pictures, number, console)
                question.answer.set_result(input("> "))
            except (EOFError, KeyboardInterrupt):
                return 0
    return 0


def show(parts: list[str | bytes], folder: Path, number: int, console: Console) -> None:
    """Print the texts of a question, and where its pictures were put."""
    console.print(f"\nQuestion {number}")
    for part, content in enumerate(parts):
        if isinstance(content, str):
            console.print(content, markup=False, soft_wrap=True)
        else:
            file = folder / f"{number}_{part}.png"
            file.write_bytes(content)
            console.print(f"  {file}", markup=False, soft_wrap=True)


class _Server(ThreadingHTTPServer):
    """Takes questions on this machine alone; each waits for its answer in a thread of its own."""

    def __init__(self, port: int) -> None:
        self.questions: queue.SimpleQueue[Question] = queue.SimpleQueue()
        self.asked: list[Future[str]] = []
        super().__init__(("127.0.0.1", port), _Handler)


class _Handler(BaseHTTPRequestHandler):
    server: "_Server"

    def do_POST(self) -> None:
        try:
            parts = self._parts()
        except ValueError as error:
            self._reply(400, {"error": {"message": str(error)}})
            return
        question = Question(parts, Future())
        self.server.asked.append(question.answer)
        self.server.questions.put(question)
        try:
            answer = question.answer.result()
        except CancelledError:
            self._reply(503, {"error": {"message": "nobody answers any more"}})
            return
        message = {"role": "assistant", "content": answer}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
        facts = {"id": "person", "object": "chat.completion", "created": int(time.time()), "model": "person"}
        self._reply(200, facts | {"choices": [choice], "usage": usage})

    def _parts(self) -> list[str | bytes]:
        # A page in a browser cannot send this type to us without asking first, which is not answered.
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
        self.end_headers()
        with suppress(ConnectionError):  # whoever asked may have gone
            self.wfile.write(data)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Do not print requests among the questions."""


@contextmanager
def serving(port: int) -> Iterator[_Server]:
    """Serve chat completions on this machine alone; yield the server, which has the questions as they come.

    Args:
        port: 0: any that is free.

    Raises:
        ConfigError: if the port is taken.
    """
    try:
        server = _Server(port)
    except OSError as error:
        raise ConfigError(f"port {port} cannot be used: {error.strerror}; choose another, or 0 for any") from error
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        for answer in server.asked:
            answer.cancel()
        server.shutdown()
        server.server_close()


def read_parts(body: bytes) -> list[str | bytes]:
    """Return the texts and pictures of a chat completion's messages.

    Raises:
        ValueError: if it is none, or a picture is no PNG in the request itself.
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
    except (KeyError, TypeError, AttributeError, binascii.Error) as error:
        raise ValueError(f"expected messages of texts and pictures: {type(error).__name__} {error}") from error
    return parts
