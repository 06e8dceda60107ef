"""The server of the pages: who may speak, and what is told."""

import asyncio
import contextlib
import functools
import json
import socket
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("websockets")

from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidMessage, InvalidStatus

from robo_rl.core import ConfigError
from robo_rl.evaluation.curves import POINTS, curves
from robo_rl.evaluation.runs import Run
from robo_rl.transport import make_keys
from robo_rl.web import WebConfig, listening
from robo_rl.web import config as web_config
from robo_rl.web import server as web_server
from robo_rl.web.listening import GRACE_SECONDS, MOST_REFUSED, MOST_STRANGERS, listen
from robo_rl.web.server import MESSAGE_BYTES, REFUSED, PageServer

from ..rigs import tls_strangers

PATIENCE_SECONDS = 60.0
PAGES = {"/": "runs.html", "/link.js": "link.js"}


async def echo(page: Any) -> None:
    async for data in page:
        await page.send(data)


def serving(config: WebConfig, visit: Callable[[PageServer, str], Awaitable[None]]) -> list[str]:
    """Serve, call ``visit`` with the server and its token; return what people were told."""
    messages: list[str] = []

    async def run() -> None:
        server = PageServer(config, PAGES, echo, messages.append)
        async with server.serving():
            await visit(server, server.link.partition("#")[2])

    asyncio.run(run())
    return messages


def socket_of(server: PageServer, origin: str | None = None, tls: ssl.SSLContext | None = None) -> Any:
    return connect(
        f"ws{server.origin.removeprefix('http')}/socket",
        origin=origin or server.origin,
        ssl=tls,
        proxy=None,
        open_timeout=PATIENCE_SECONDS,
    )


def test_the_right_token_opens_and_a_wrong_one_is_refused_and_told_but_never_shown() -> None:
    async def visit(server: PageServer, token: str) -> None:
        assert len(token) >= 40
        async with socket_of(server) as page:
            await page.send(json.dumps({"token": token}))
            await page.send("hello")
            assert await page.recv() == "hello"
        wrong_tokens = [json.dumps({"token": wrong}) for wrong in (token[:-1] + "?", 5, "\ud800")]
        for wrong in (*wrong_tokens, "{}", "[" * 3000, b"\xff"):
            async with socket_of(server) as page:
                await page.send(wrong)
                with pytest.raises(ConnectionClosed) as closed:
                    await page.recv()
                assert closed.value.rcvd is not None and closed.value.rcvd.code == REFUSED

    messages = serving(WebConfig("127.0.0.1:0"), visit)
    assert messages == ["Refused a page from 127.0.0.1: the token is missing or wrong"]


def test_pages_of_other_origins_and_large_messages_are_refused() -> None:
    async def visit(server: PageServer, token: str) -> None:
        for origin in ("http://evil.example", "null", server.origin.replace("http", "https")):
            with pytest.raises(InvalidStatus) as refused:
                async with socket_of(server, origin):
                    pass
            assert refused.value.response.status_code == 403
        address = f"ws{server.origin.removeprefix('http')}/socket"
        with pytest.raises(InvalidStatus, match="403"):
            await connect(address, origin=server.origin, additional_headers={"Origin": server.origin}, proxy=None)
        async with socket_of(server, server.origin.replace("127.0.0.1", "localhost")) as page:
            await page.send(json.dumps({"token": token, "more": "x" * MESSAGE_BYTES}))
            with pytest.raises(ConnectionClosed):
                await page.recv()

    serving(WebConfig("127.0.0.1:0"), visit)


@pytest.mark.parametrize("encrypted", [False, True])
def test_strangers_who_say_nothing_take_few_files_of_the_process(
    encrypted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each connection is a file: without a bound a stranger leaves none for episodes and checkpoints."""
    monkeypatch.setattr(listening, "GRACE_SECONDS", PATIENCE_SECONDS)  # on a busy machine they come slowly
    monkeypatch.setattr(web_server, "TOKEN_SECONDS", 2 * PATIENCE_SECONDS)
    keys = tmp_path / "keys"
    if encrypted:
        make_keys(keys, hosts=["127.0.0.1"], actors=["a"])

    async def visit(server: PageServer, token: str) -> None:
        tls = ssl.create_default_context(cafile=str(keys / "ca.pem")) if encrypted else None
        async with socket_of(server, tls=tls) as page:
            await page.send(json.dumps({"token": token}))
            await page.send("here")
            assert await page.recv() == "here"  # no stranger any more
            port = urllib.parse.urlsplit(server.origin).port
            strangers = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2 * MOST_STRANGERS)]
            refused = strangers[MOST_STRANGERS:]  # at once: of their host nobody has been there for long
            await asyncio.wait_for(asyncio.gather(*(reader.read() for reader, _ in refused)), PATIENCE_SECONDS)
            assert not any(reader.at_eof() for reader, _ in strangers[:MOST_STRANGERS])
            await page.send("still here")
            assert await page.recv() == "still here"
            for _, writer in strangers:
                writer.close()
            async with asyncio.timeout(PATIENCE_SECONDS):
                while True:  # until the server has heard that they left
                    try:
                        async with socket_of(server, tls=tls) as another:
                            await another.send(json.dumps({"token": token}))
                            await another.send("a page again")
                            assert await another.recv() == "a page again"
                        break
                    except (OSError, InvalidMessage):
                        await asyncio.sleep(0.05)

    config = WebConfig("127.0.0.1:0", certificates=str(keys) if encrypted else None)
    assert not [text for text in serving(config, visit) if "token" not in text]


HALF = b"GET /socket HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "


async def be_strange(kind: str, port: int) -> None:
    """Keep a connection of a stranger open, and open another one whenever it is closed."""
    while True:
        with contextlib.suppress(OSError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=("127.0.0.2", 0))
            try:
                if kind == "half":
                    writer.write(HALF)
                elif kind == "rubbish":
                    writer.write(b"\x16\x03\x01" + bytes(500))
                elif kind == "drip":
                    for byte in HALF * 10:
                        writer.write(bytes([byte]))
                        await asyncio.sleep(0.1)
                elif kind == "leaves":
                    continue
                await reader.read()
            finally:
                writer.close()


@pytest.mark.parametrize("kind", ["silent", "half", "rubbish", "drip", "leaves"])
def test_strangers_of_another_host_never_keep_an_operator_out(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """200 of them, who come again at once when they are closed, and none of whom leaves because its time is over.

    They share a thread with the server, so how long it takes says nothing: benchmarks/bench_web.py measures that.
    """
    monkeypatch.setattr(web_server, "TOKEN_SECONDS", PATIENCE_SECONDS)

    async def visit(server: PageServer, token: str) -> None:
        port = urllib.parse.urlsplit(server.origin).port
        assert port is not None
        strangers = [asyncio.create_task(be_strange(kind, port)) for _ in range(200)]
        await asyncio.sleep(0.3)
        for _ in range(10):
            async with socket_of(server) as page:
                await page.send(json.dumps({"token": token}))
                await page.send("stop")
                assert await page.recv() == "stop"
        for stranger in strangers:
            stranger.cancel()
        await asyncio.gather(*strangers, return_exceptions=True)

    serving(WebConfig("127.0.0.1:0"), visit)


@pytest.mark.parametrize("kind", tls_strangers.KINDS)
def test_strangers_who_spoil_tls_neither_keep_an_operator_out_nor_fill_the_terminal(
    kind: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(web_server, "TOKEN_SECONDS", PATIENCE_SECONDS)
    make_keys(tmp_path, hosts=["127.0.0.1"], actors=["a"])
    tls = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))

    async def visit(server: PageServer, token: str) -> None:
        port = urllib.parse.urlsplit(server.origin).port
        assert port is not None
        stranger = functools.partial(tls_strangers.tls_stranger, ("127.0.0.1", port), kind)
        strangers = [await asyncio.to_thread(stranger) for _ in range(2 * MOST_STRANGERS)]
        for _ in range(3):
            async with socket_of(server, tls=tls) as page:
                await page.send(json.dumps({"token": token}))
                await page.send("stop")
                assert await page.recv() == "stop"
            strangers += [await asyncio.to_thread(stranger) for _ in range(10)]
        for connection in strangers:
            connection.close()

    assert serving(WebConfig("127.0.0.1:0", certificates=str(tmp_path)), visit) == []
    assert capfd.readouterr().err == "" and not caplog.records


def test_strangers_of_the_same_host_keep_an_operator_out_for_a_moment_at_most() -> None:
    async def visit(server: PageServer, token: str) -> None:
        port = urllib.parse.urlsplit(server.origin).port
        strangers = [await asyncio.open_connection("127.0.0.1", port) for _ in range(200)]
        await asyncio.sleep(GRACE_SECONDS)
        pages = []
        for _ in range(10):  # those that have shown the token are closed for nobody
            page = await socket_of(server)
            await page.send(json.dumps({"token": token}))
            pages.append(page)
        strangers += [await asyncio.open_connection("127.0.0.1", port) for _ in range(200)]
        for page in pages:
            await page.send("stop")
            assert await page.recv() == "stop"
            await page.close()
        for _, writer in strangers:
            writer.close()

    serving(WebConfig("127.0.0.1:0"), visit)


def test_connections_that_are_refused_leave_the_queue_at_once() -> None:
    """The event loop takes one connection after an error before everything else has its turn."""
    (listener,) = listen("127.0.0.1", 0)
    with contextlib.ExitStack() as ends:
        ends.enter_context(listener)
        listener.listen(400)
        listener.setblocking(False)
        address = listener.getsockname()
        clients = [ends.enter_context(socket.create_connection(address)) for _ in range(MOST_STRANGERS + 90)]
        accepted = [ends.enter_context(listener.accept()[0]) for _ in range(MOST_STRANGERS)]
        with pytest.raises(BlockingIOError):  # 90 refused at once, and the queue is empty
            listener.accept()
        assert all(client.recv(1) == b"" for client in clients[MOST_STRANGERS:])
        clients += [ends.enter_context(socket.create_connection(address)) for _ in range(MOST_REFUSED + 1)]
        for visitor in list(listener._strangers):
            listener._strangers.remove(visitor)
            listener._strangers.append(visitor._replace(since=time.monotonic() + 60))
        with pytest.raises(ConnectionAbortedError):  # other tasks have their turn
            listener.accept()
        assert len(accepted) == MOST_STRANGERS


def test_pages_are_fixed_files_that_may_load_nothing_from_elsewhere() -> None:
    async def visit(server: PageServer, token: str) -> None:
        def get(path: str) -> Any:
            return urllib.request.build_opener(urllib.request.ProxyHandler({})).open(server.origin + path)

        page = await asyncio.to_thread(get, "/?run=1")
        body = page.read().decode()
        assert "<title>robo-rl</title>" in body and token not in body and "//" not in body
        assert "default-src 'none'" in page.headers["Content-Security-Policy"]
        assert page.headers["Referrer-Policy"] == "no-referrer"
        for path in ("/../config.py", "/runs.js", "/static/link.js"):
            with pytest.raises(urllib.error.HTTPError, match="404"):
                await asyncio.to_thread(get, path)

    serving(WebConfig("127.0.0.1:0"), visit)


def test_https_with_the_certificates_of_robo_rl_keys(tmp_path: Path) -> None:
    make_keys(tmp_path, ["127.0.0.1"], [])

    async def visit(server: PageServer, token: str) -> None:
        assert server.link.startswith("https://127.0.0.1:")
        unverified = ssl._create_unverified_context()  # as a person who accepts a browser's warning
        get = functools.partial(urllib.request.urlopen, f"{server.origin}/ca.pem", timeout=60, context=unverified)
        with await asyncio.to_thread(get) as answer:
            assert answer.headers["Content-Type"] == "application/x-x509-ca-cert"
            authority = answer.read().decode()
        assert "PRIVATE" not in authority
        trusting = ssl.create_default_context(cadata=authority)
        async with socket_of(server, tls=trusting) as page:
            await page.send(json.dumps({"token": token}))
            await page.send("hello")
            assert await page.recv() == "hello"

    serving(WebConfig("127.0.0.1:0", certificates=str(tmp_path)), visit)


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"address": "workstation.lan:8090"}, "robo-rl keys"),
        ({"address": "0.0.0.0:8090", "certificates": "keys"}, "under which browsers reach this machine"),
        ({"address": "localhost"}, "web.address must be HOST:PORT"),
        ({"address": "127.0.0.1:http"}, "web.address must be HOST:PORT"),
    ],
)
def test_what_cannot_be_served_is_named(fields: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        WebConfig(**fields)


def test_a_port_in_use_is_avoided_unless_it_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    async def visit(server: PageServer, token: str) -> None:
        ports.append(int(server.origin.rpartition(":")[2]))
        async with socket_of(server) as page:
            await page.send(json.dumps({"token": token}))
            await page.send("hello")
            assert await page.recv() == "hello"

    ports: list[int] = []
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        monkeypatch.setattr(web_config, "DEFAULT_PORT", port)
        messages = serving(WebConfig(), visit)
        assert ports[0] > port
        assert messages == [f"Port {port} is in use, perhaps by another page: this page has port {ports[0]}"]
        with pytest.raises(ConfigError, match=f"web.address 127.0.0.1:{port}: Address already in use.*choose another"):
            serving(WebConfig(f"127.0.0.1:{port}"), visit)


def test_short_tokens_and_missing_keys_are_named(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("short\n")
    token.chmod(0o600)
    with pytest.raises(ConfigError, match="16 characters or more"):
        PageServer(WebConfig(token_file=str(token)), PAGES, echo)
    token.write_text("a secret that is long enough\n")
    token.chmod(0o644)
    with pytest.raises(ConfigError, match="others can read"):
        PageServer(WebConfig(token_file=str(token)), PAGES, echo)
    with pytest.raises(ConfigError, match="make them with robo-rl keys"):
        PageServer(WebConfig(certificates=str(tmp_path)), PAGES, echo)


def test_curves_are_thinned_and_keep_the_newest_point() -> None:
    episodes = [
        {"step": number, "kind": "episode", "episode_return": float(number), "success": number % 2 == 0}
        for number in range(1000)
    ]
    evaluations = [{"step": 500, "kind": "evaluation", "success_rate": 0.25, "episodes": 4}]
    drawn = {curve["title"]: curve for curve in curves(Run(Path(), {}, (*episodes, *evaluations), None))}
    assert set(drawn) == {"success of evaluations", "success, mean of 20 episodes", "return, mean of 20 episodes"}
    returns = drawn["return, mean of 20 episodes"]
    assert len(returns["x"]) <= POINTS and returns["x"][-1] == 999
    assert returns["y"][-1] == pytest.approx(sum(range(980, 1000)) / 20)
    assert returns["y"][0] == pytest.approx(sum(range(returns["x"][0] + 1)) / (returns["x"][0] + 1))
    assert drawn["success of evaluations"] == {
        "title": "success of evaluations",
        "x": [500],
        "y": [0.25],
        "share": True,
    }
