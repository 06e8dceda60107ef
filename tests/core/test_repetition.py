"""Messages that repeat are said now and then, whatever repeats them."""

import asyncio
import json
import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from robo_rl.core import ManualClock, Repetitions
from robo_rl.drivers.ros2 import failures
from robo_rl.drivers.ros2.dds.waiter import log_failure
from robo_rl.web import WebConfig
from robo_rl.web.server import PageServer

websockets = pytest.importorskip("websockets.asyncio.client")
SECOND_NS = 1_000_000_000


@pytest.mark.parametrize(
    ("period_s", "hours", "least", "most"),
    [(0.1, 1, 10, 20), (10.0, 24, 100, 200), (1.0, 24, 100, 200), (700.0, 24, 123, 123)],
)
def test_whatever_the_rate_few_are_said(period_s: float, hours: int, least: int, most: int) -> None:
    clock = ManualClock()
    repetitions = Repetitions(clock)
    count = round(hours * 3600 / period_s)
    due = 0
    for _ in range(count):
        due += repetitions.count("token")
        clock.advance_ns(round(period_s * SECOND_NS))
    assert least <= due <= most and repetitions.counts["token"] == count
    assert repetitions.count("another kind")


def test_wrong_tokens_do_not_flood_the_terminal_of_a_page() -> None:
    messages: list[str] = []

    async def serve() -> None:
        server = PageServer(WebConfig("127.0.0.1:0"), {"/": "answer.html"}, lambda _: asyncio.sleep(0), messages.append)
        async with server.serving():
            address = f"ws{server.origin.removeprefix('http')}/socket"
            for number in range(60):
                async with websockets.connect(address, origin=server.origin, proxy=None) as page:
                    await page.send(json.dumps({"token": f"{number}\x1b[2J"}))
                    await page.wait_closed()

    asyncio.run(serve())
    assert messages == ["Refused a page from 127.0.0.1: the token is missing or wrong"]


def raise_key(number: int) -> None:
    raise KeyError(f"message {number}")


def raise_value(number: int) -> None:
    raise ValueError(f"message {number}")


@pytest.mark.parametrize(
    "callbacks", [[raise_key], [raise_value, raise_key], [raise_key, lambda n: raise_value(n), raise_value]]
)
def test_a_callback_that_fails_for_each_message_is_logged_once(
    callbacks: list[Callable[[int], None]], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    monkeypatch.setattr(failures, "_REPETITIONS", Repetitions(clock))
    for number in range(1000):
        for callback in callbacks:
            log_failure(callback, number)
    kinds = {"raise_value" if callback is not raise_key else "raise_key" for callback in callbacks}
    assert [record.message for record in caplog.records] == ["A callback failed"] * len(kinds)
    assert "in raise_key" in caplog.text and "message 0" in caplog.text
    clock.advance_ns(10 * SECOND_NS)
    log_failure(raise_key, 1000)
    assert caplog.records[-1].message.startswith("A callback failed, ")


def test_nor_does_one_of_rclpy(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rclpy")
    from robo_rl.drivers.ros2.with_rclpy.endpoints import Guard

    monkeypatch.setattr(failures, "_REPETITIONS", Repetitions(ManualClock()))
    lines: list[str] = []
    logger: Any = SimpleNamespace(error=lines.append)
    callback = Guard(logger)(raise_key)
    for number in range(1000):
        callback(number)
    assert len(lines) == 1 and "message 0" in lines[0]


def test_a_callback_on_the_log_itself_ends_no_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """A handler of the log that fails logs that, which it receives."""
    monkeypatch.setattr(failures, "_REPETITIONS", Repetitions(ManualClock()))
    calls: list[int] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            calls.append(1)
            log_failure(raise_key, len(calls))

    logger, handler = logging.getLogger("robo_rl.drivers.ros2"), Handler()
    logger.addHandler(handler)
    try:
        log_failure(raise_key, 0)
    finally:
        logger.removeHandler(handler)
    assert len(calls) == 1
