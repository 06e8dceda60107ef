"""Client of OpenAI's chat completions over HTTP: for vLLM, Ollama, hosted models, or a person (reward answer)."""

import asyncio
import base64
import io
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from robo_rl.core import (
    MAX_SECONDS,
    CheckpointError,
    ConfigError,
    Metrics,
    Options,
    RoboRLError,
    State,
    importing_extra,
    is_loopback,
    option,
    require,
)

from .answers import AnswerCache

Picture = NDArray[np.uint8]

LARGEST_ANSWER = 1 << 20
"""Largest size of an answer [bytes]; longer ones are rejected."""
MOST_TOKENS = 1 << 40
"""Largest plausible number of tokens of one answer. A larger number would overflow the sum."""
LONGEST_WAIT = 60.0
"""Longest wait between two attempts, even if the server requests a longer one [s]."""
PASSING = (408, 409, 425, 429)
"""Statuses, in addition to 5xx, after which another attempt may succeed."""


class EndpointError(RoboRLError):
    """Raised if a model does not answer, or refuses to."""


class BudgetSpentError(EndpointError):
    """Raised if the run may send no more requests."""


@dataclass(frozen=True)
class EndpointConfig(Options, section="endpoint"):
    """Server with the chat completions API of OpenAI, and the budget of requests to it.

    Attributes:
        url: address of the server, to which ``/chat/completions`` is added: ``http://127.0.0.1:8000/v1`` is vLLM,
            ``http://127.0.0.1:11434/v1`` Ollama, ``http://127.0.0.1:8123/v1`` a person at ``robo-rl reward answer``.
        model: name of the model on the server.
        parameters: further fields of every request.
        key_variable: name of the environment variable with the key of the API; null: no key is sent. The key itself is
            never written anywhere.
        timeout_seconds: time limit of one attempt, from the connection to the whole answer [s].
        retries: number of further attempts after a failure for a temporary reason.
        backoff_seconds: wait before the first of them, doubled before each further one [s]. A longer ``Retry-After`` of
            the server is used instead, up to a minute.
        parallel: number of questions in flight at a time.
        most_requests: budget of the run: number of attempts. Answers from the cache are free.
        most_tokens: budget of the run: number of tokens read and written, as counted by the server; null: no limit.
            Requests in flight when it is reached exceed it.
        input_price: price of a million tokens read, in any currency, for the displayed cost.
        output_price: price of a million tokens written.
        cache: folder of readable answers, by a hash of the whole request; null: ``robo_rl/answers`` in the user's
            cache.
    """

    url: str = "http://127.0.0.1:8000/v1"
    model: str = ""
    parameters: dict[str, Any] = field(default_factory=lambda: {"temperature": 0.0, "max_tokens": 1000})
    key_variable: str | None = None
    timeout_seconds: float = option(60.0, above=0, high=MAX_SECONDS)
    retries: int = option(3, low=0)
    backoff_seconds: float = option(1.0, low=0, high=MAX_SECONDS)
    parallel: int = option(4, low=1)
    most_requests: int = option(2000, low=0)
    most_tokens: int | None = None
    input_price: float = option(0.0, low=0)
    output_price: float = option(0.0, low=0)
    cache: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            parts = urlsplit(self.url)
            usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.username is None
        except ValueError:
            usable = False
        require(usable, "endpoint.url", "http://HOST:PORT/PATH or https://..., without a password", self.url)
        tokens = self.most_tokens
        require(tokens is None or tokens >= 0, "endpoint.most_tokens", "null or 0 or more", tokens)

    def key(self) -> str | None:
        """Return the key of the API.

        Raises:
            ConfigError: if the variable is not set, or the key would be sent unencrypted.
        """
        if self.key_variable is None:
            return None
        key = os.environ.get(self.key_variable, "")
        if not key.isascii() or not key.isprintable() or not key:
            raise ConfigError(f"endpoint.key_variable: the environment has no key in {self.key_variable}: set it")
        parts = urlsplit(self.url)
        if parts.scheme != "https" and not is_loopback(parts.hostname or ""):
            raise ConfigError(f"endpoint.url must be https if a key is sent, got {self.url!r}")
        return key


class _Reply(NamedTuple):
    text: str
    is_whole: bool


class _PassingError(Exception):
    """Raised if another attempt may succeed. ``wait`` is the time until then that the server requested [s]."""

    def __init__(self, message: str, wait: float = 0.0) -> None:
        super().__init__(message)
        self.wait = wait


class Endpoint:
    """Server and model, with a budget; see :class:`EndpointConfig`. May be used from several threads.

    Raises:
        ConfigError: if no model is named, the key is missing, or the HTTP library is not installed.
    """

    def __init__(self, config: EndpointConfig) -> None:
        with importing_extra("vlm", "models over HTTP need httpx2"):
            import httpx2
        require(bool(config.model), "endpoint.model", "the name of a model that the server has", config.model)
        self.config = config
        self._key = config.key()
        headers = {"Content-Type": "application/json"}
        if self._key is not None:
            headers["Authorization"] = f"Bearer {self._key}"
        # A request to this machine may contain a key and be unencrypted, so it must not pass through a proxy.
        direct = is_loopback(urlsplit(config.url).hostname or "")
        mounts = {"http://": None, "https://": None} if direct else None
        # The timeouts of the library apply to single reads. A server that sends a byte at intervals never exceeds them.
        self._client = partial(
            httpx2.AsyncClient, headers=headers, timeout=None, mounts=mounts, verify=httpx2.create_ssl_context()
        )
        self._failures = httpx2.TransportError, httpx2.DecodingError
        self._address = config.url.rstrip("/") + "/chat/completions"
        self._cache = AnswerCache(config.cache)
        self._usage = np.zeros(3, dtype=np.int64)  # requests, tokens read, tokens written
        self._last_error = ""
        self._lock = threading.Lock()

    def ask(
        self,
        question: Sequence[str | Picture],
        form: Mapping[str, Any] | None = None,
        readable: Callable[[str], bool] = bool,
    ) -> str:
        """Return the answer to a question of texts and pictures (H, W, 3).

        The call blocks until the last attempt ends. An answer that is not readable, or was cut at ``max_tokens``, is
        returned but not cached: the fault may be accidental, so the same question is sent again next time.

        Args:
            question: texts and pictures, in order.
            form: form in which a person can answer without typing, sent as a header ``Answer-Form``, which models do
                not see: ``{"choices": [[answer, label], ...]}``, or ``{"grid": n}`` for a list of cells [column, row],
                from 1, of the picture.
            readable: returns whether an answer is readable; by default every answer that is not empty.

        Raises:
            EndpointError: if there is no answer; :class:`BudgetSpentError` if the budget is spent.
        """
        content = [_part(item) for item in question]
        body = self.config.parameters | {
            "model": self.config.model,
            "messages": [{"role": "user", "content": content}],
        }
        request = json.dumps([self._address, body], sort_keys=True).encode()
        cached = self._cache.find(request)
        if cached is not None and readable(cached):
            return cached
        sent = json.dumps(body).encode()
        wait, failure = self.config.backoff_seconds, ""
        for attempt in range(self.config.retries + 1):
            if attempt:
                time.sleep(wait)
            self._count_request()
            try:
                reply = self._attempt(sent, {} if form is None else {"Answer-Form": json.dumps(form)})
            except _PassingError as error:
                failure = self._clean(str(error))
                wait = max(self.config.backoff_seconds * 2**attempt, min(error.wait, LONGEST_WAIT))
                continue
            if reply.is_whole and readable(reply.text):
                try:
                    self._cache.keep(request, reply.text)
                except ConfigError as error:  # for example a full disk; the answer exists, and may have been paid for
                    self.report(error)
            return reply.text
        attempts = self.config.retries + 1
        raise EndpointError(f"{self._address}: no answer in {attempts} attempts; the last: {failure}")

    def report(self, error: RoboRLError) -> None:
        """Print to standard error why there is no answer, unless the previous reason was the same."""
        if str(error) != self._last_error:
            self._last_error = str(error)
            sys.stderr.write(f"robo-rl: {error}\n")  # one write: print writes the end apart, and threads mix
            sys.stderr.flush()

    def metrics(self) -> Metrics:
        """Return the numbers of requests and tokens so far, and their cost if prices are configured."""
        with self._lock:
            requests, read, written = self._usage.tolist()
        metrics = {"requests": float(requests), "input_tokens": float(read), "output_tokens": float(written)}
        if self.config.input_price or self.config.output_price:
            metrics["cost"] = (read * self.config.input_price + written * self.config.output_price) / 1e6
        return metrics

    def state(self) -> State:
        """Return the use of the budget."""
        with self._lock:
            return {"usage": self._usage.copy()}

    def load(self, state: State) -> None:
        """Restore ``state``.

        Raises:
            CheckpointError: if it is not the state of an endpoint.
        """
        usage = state.get("usage")
        if usage is None or usage.shape != self._usage.shape or usage.dtype != self._usage.dtype:
            raise CheckpointError("expected the use of the endpoint, (3,) int64; resume with the run's options")
        with self._lock:
            self._usage[...] = usage

    def _count_request(self) -> None:
        config = self.config
        with self._lock:
            requests, tokens = int(self._usage[0]), int(self._usage[1:].sum())
            if requests >= config.most_requests:
                spent = f"{requests:,} requests; endpoint.most_requests allows no more"
            elif config.most_tokens is not None and tokens >= config.most_tokens:
                spent = f"{tokens:,} tokens; endpoint.most_tokens allows no more"
            else:
                self._usage[0] += 1
                return
        raise BudgetSpentError(f"{self._address}: the budget is spent: {spent}")

    def _attempt(self, sent: bytes, headers: dict[str, str]) -> _Reply:
        """Send one request.

        Raises:
            _PassingError: if another attempt may succeed.
            EndpointError: if it cannot.
        """
        try:
            status, retry_after, received = asyncio.run(self._exchange(sent, headers))
        except TimeoutError as error:
            raise _PassingError(f"no whole answer within {self.config.timeout_seconds:g} s") from error
        except self._failures as error:
            raise _PassingError(f"{type(error).__name__}: {error}") from error
        if status != 200:
            text = f"status {status}: {received[:500].decode(errors='replace')}"
            if status in PASSING or status >= 500:
                raise _PassingError(text, _seconds(retry_after))
            raise EndpointError(f"{self._address}: {self._clean(text)}")
        return self._read(received)

    async def _exchange(self, sent: bytes, headers: dict[str, str]) -> tuple[int, str, bytes]:
        """Send one request; return the status, ``Retry-After`` (empty if missing) and the body.

        Raises:
            TimeoutError: if the whole exchange takes too long.
            _PassingError: if the body is too long.
        """
        received = bytearray()
        async with (
            asyncio.timeout(self.config.timeout_seconds),
            self._client() as client,
            client.stream("POST", self._address, content=sent, headers=headers) as response,
        ):
            async for chunk in response.aiter_bytes():
                received += chunk
                if len(received) > LARGEST_ANSWER:
                    raise _PassingError(f"an answer of more than {LARGEST_ANSWER:,} bytes")
            return response.status_code, response.headers.get("Retry-After", ""), bytes(received)

    def _read(self, received: bytes) -> _Reply:
        """Return the reply in a chat completion; count its tokens, even if the reply is empty.

        Raises:
            _PassingError: if it is not a chat completion, or the reply is empty.
            EndpointError: if the reply was cut before its first word, or its tokens must be counted and cannot be.
        """
        try:
            reply = json.loads(received)
            is_counted = self._count_tokens(reply.get("usage") or {})
            choice = reply["choices"][0]
            text, is_whole = choice["message"]["content"], choice.get("finish_reason") != "length"
        except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError) as error:
            start = received[:200].decode(errors="replace")
            raise _PassingError(f"expected a chat completion in JSON, got {start!r}") from error
        if not is_counted and self.config.most_tokens is not None:
            raise EndpointError(
                f"{self._address} does not report how many tokens it used, so endpoint.most_tokens cannot be "
                "enforced: set it to null and limit endpoint.most_requests"
            )
        if isinstance(text, str) and text.strip():
            return _Reply(text, is_whole)
        if is_whole:
            raise _PassingError("an empty answer")
        raise EndpointError(
            f"{self._address}: the answer was cut off before its first word: raise endpoint.parameters.max_tokens"
        )

    def _count_tokens(self, usage: Mapping[str, Any]) -> bool:
        """Count the tokens of a reply; return whether the reply reports them."""
        counts = usage.get("prompt_tokens"), usage.get("completion_tokens")
        tokens = [count for count in counts if isinstance(count, int) and 0 <= count < MOST_TOKENS]
        if len(tokens) != len(counts):
            return False
        with self._lock:
            self._usage[1:] += tokens
        return True

    def _clean(self, text: str) -> str:
        """Return the text as one line, without the key, which a server may repeat."""
        hidden = text if self._key is None else text.replace(self._key, "***")
        return " ".join(hidden.split())


def _part(part: str | Picture) -> dict[str, Any]:
    """Return a text or a picture as a part of a message."""
    if isinstance(part, str):
        return {"type": "text", "text": part}
    stream = io.BytesIO()
    Image.fromarray(part).save(stream, "png")
    data = base64.b64encode(stream.getvalue()).decode()
    return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}


def _seconds(text: str) -> float:
    """Return the value of a ``Retry-After`` header; 0 for dates, which are rare."""
    try:
        return max(0.0, float(text))
    except ValueError:
        return 0.0
