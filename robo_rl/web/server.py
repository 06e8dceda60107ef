"""An HTTP server of a few fixed pages and of the authenticated websockets that these pages use."""

import asyncio
import hmac
import http
import json
import logging
import secrets
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any
from urllib.parse import quote

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from robo_rl.core import ConfigError, Repetitions

from .config import AUTHORITY_PATH, WebConfig
from .files import POLICY as FILES_POLICY
from .files import PREFIX as FILES
from .files import FolderFiles
from .listening import Listener, served, trust
from .open_pages import OpenPage, listed

STATIC = Path(__file__).parent / "static"
SOCKET = "/socket"
MESSAGE_BYTES = 4096
"""Largest message that a page may send, unless its server sets another limit."""
MOST_QUEUED = 512
"""Most connections in the queue of the kernel; see :meth:`.Listener.accept`."""
TOKEN_SECONDS = 10.0
MOST_PAGES = 16
PING_SECONDS = 2.0
PONG_SECONDS = 10.0

REFUSED, ENDED, BUSY = 4401, 4410, 4429
"""Codes that close a websocket: the token is wrong, the command has ended, there are too many pages."""

PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; media-src 'self'; "
    "manifest-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Content-Security-Policy of pages."""

APP = ("manifest.webmanifest", "icon.png")
"""Files that every server of pages sends, so that a device can install its first page. They contain no secret."""

_TYPES = {
    **{".html": "text/html; charset=utf-8", ".js": "text/javascript", ".css": "text/css"},
    **{".svg": "image/svg+xml", ".png": "image/png", ".webmanifest": "application/manifest+json"},
}

_STATE_ERROR = "unexpected internal error"
"""Message that websockets logs, with a traceback, when a client sends more after a request that ends a connection."""

Handler = Callable[[ServerConnection], Awaitable[None]]


class PageServer:
    """A server that sends pages to anyone, and passes websockets that have shown the token to a handler.

    The pages themselves contain no secrets. A page reads the token from the fragment of its address, which browsers
    never send, and shows it in its first message; the token is compared in constant time and never logged. A websocket
    that was opened by a page of another origin is refused before that.

    Args:
        config: address and keys.
        pages: file of ``static/``, or absolute path of another file, by path; ``/`` is the first page.
        handler: called with each websocket that has shown the token; the websocket is closed when it returns.
        notify: reports messages to operators.
        message_bytes: largest message that a page may send.
        handlers: handlers of further websockets by path, which begins with :data:`SOCKET` and a slash.
        files: files of folders, whose addresses the handlers send to pages; None: there are none.
        title: purpose of the first page, under which the page of runs links to it; empty: it does not.

    Raises:
        ConfigError: if keys or token cannot be read.
    """

    def __init__(
        self,
        config: WebConfig,
        pages: Mapping[str, str],
        handler: Handler,
        notify: Callable[[str], None] = print,
        message_bytes: int = MESSAGE_BYTES,
        handlers: Mapping[str, Handler] | None = None,
        files: FolderFiles | None = None,
        title: str = "",
    ) -> None:
        self._config = config
        self._title = title
        named = {f"/{name}": name for name in APP} | dict(pages)
        self._files = {path: (STATIC / name, _TYPES[Path(name).suffix]) for path, name in named.items()}
        if config.certificates is not None:
            self._files[AUTHORITY_PATH] = Path(config.certificates, "ca.pem"), "application/x-x509-ca-cert"
        self._handlers = {SOCKET: handler, **(handlers or {})}
        self._folder_files = files
        self._notify = notify
        self._message_bytes = message_bytes
        self._token = config.token() or secrets.token_urlsafe(32)
        self._tls = _tls(config)
        self._port = config.ports[0]
        self._pages = 0
        self._refusals = Repetitions()
        self._listeners: list[Listener] = []
        self._log = logging.Logger("robo_rl.web", logging.ERROR)
        self._log.addFilter(lambda record: record.msg != _STATE_ERROR and self._refusals.count(str(record.msg)))

    @property
    def origin(self) -> str:
        """Origin of the pages, for example ``http://127.0.0.1:8090``, with the actual port."""
        return self._origin(self._config.host)

    @property
    def link(self) -> str:
        """Address of the first page with the token: anyone who has it has access."""
        return f"{self.origin}/#{quote(self._token, safe='')}"

    def _origin(self, host: str) -> str:
        return f"{'http' if self._tls is None else 'https'}://{f'[{host}]' if ':' in host else host}:{self._port}"

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Serve within the context.

        Raises:
            ConfigError: if the address is not available.
        """
        host, ports = self._config.host, self._config.ports
        async with served(self._listeners, host, ports, "web.address", self._serving_on) as self._port:
            if ports[0] not in (0, self._port):
                self._notify(f"Port {ports[0]} is in use, perhaps by another page: this page has port {self._port}")
            with listed(OpenPage(self._title, self.link)) if self._title else nullcontext():
                yield

    def _serving_on(self, listener: Listener) -> AbstractAsyncContextManager[Server]:
        return serve(
            self._talk,
            sock=listener,
            ssl=self._tls,
            process_request=self._answer,
            max_size=self._message_bytes,
            backlog=MOST_QUEUED,
            open_timeout=TOKEN_SECONDS,
            ping_interval=PING_SECONDS,
            ping_timeout=PONG_SECONDS,
            close_timeout=1.0,
            compression=None,
            server_header=None,
            logger=self._log,
        )

    async def _answer(self, connection: ServerConnection, request: Request) -> Response | None:
        """Return the response to a request for a page or a file; None lets a websocket through."""
        path = _path(request)
        if path in self._handlers:
            names = {self._config.host, *(("127.0.0.1", "localhost", "::1") if self._config.is_local else ())}
            if request.headers.get_all("Origin") in [[self._origin(name)] for name in names]:
                return None
            return _response(http.HTTPStatus.FORBIDDEN, b"not from a page of this server\n")
        connection.close_timeout = TOKEN_SECONDS  # a slow network needs more time for a file than a websocket to close
        if path.startswith(FILES) and self._folder_files is not None:
            ranges = request.headers.get_all("Range")
            answer = await self._folder_files.answer(path, ranges[0] if len(ranges) == 1 else None)
            return _response(answer.status, answer.body, answer.kind, FILES_POLICY, answer.headers)
        if path not in self._files:
            return _response(http.HTTPStatus.NOT_FOUND, b"no such page\n")
        file, kind = self._files[path]
        try:
            return _response(http.HTTPStatus.OK, file.read_bytes(), kind)
        except OSError:  # certificates of another authority may come without its own
            return _response(http.HTTPStatus.NOT_FOUND, b"no such file\n")

    async def _talk(self, connection: ServerConnection) -> None:
        try:
            if not await self._shows_token(connection):
                self._note_refusal(connection)
                await connection.close(REFUSED, "the token is missing or wrong")
            elif self._pages >= MOST_PAGES:
                await connection.close(BUSY, "too many pages are open")
            else:
                await self._serve(connection)
        except* ConnectionClosed:
            pass  # the page went away, or received too slowly

    def _note_refusal(self, connection: ServerConnection) -> None:
        if self._refusals.count("token"):
            number = self._refusals.counts["token"]
            times = "" if number == 1 else f" ({number:,} such)"
            self._notify(f"Refused a page from {connection.remote_address[0]}: the token is missing or wrong{times}")

    async def _serve(self, connection: ServerConnection) -> None:
        self._pages += 1
        trust(self._listeners, connection)
        try:
            await self._handlers[_path(connection.request)](connection)
        finally:
            self._pages -= 1

    async def _shows_token(self, connection: ServerConnection) -> bool:
        try:
            async with asyncio.timeout(TOKEN_SECONDS):
                token = read_message(await connection.recv()).get("token")
        except TimeoutError:
            return False
        return isinstance(token, str) and hmac.compare_digest(token.encode(errors="replace"), self._token.encode())


def _path(request: Request | None) -> str:
    return "" if request is None else request.path.partition("?")[0]


def read_message(data: str | bytes) -> dict[str, Any]:
    """Return the JSON object in a message of a page; an empty one if there is none."""
    try:
        message = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return message if isinstance(message, dict) else {}


def _response(
    status: http.HTTPStatus,
    body: bytes,
    kind: str = "text/plain",
    policy: str = PAGE_POLICY,
    more: Iterable[tuple[str, str]] = (),
) -> Response:
    headers = {
        "Content-Type": kind,
        "Content-Length": str(len(body)),
        "Cache-Control": "no-store",
        "Connection": "close",
        "Content-Security-Policy": policy,
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        **dict(more),
    }
    return Response(status.value, status.phrase, Headers(headers), body)


def _tls(config: WebConfig) -> ssl.SSLContext | None:
    if config.certificates is None:
        return None
    folder = Path(config.certificates)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(folder / "learner.pem", folder / "learner.key")
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"web.certificates {folder} cannot be used ({error}): make them with robo-rl keys") from error
    return context
