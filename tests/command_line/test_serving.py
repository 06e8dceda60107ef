"""The event loop of commands that serve others."""

import asyncio
import os
import signal
from collections.abc import Iterator

import pytest

from robo_rl.command_line.serving import run_until_signal
from robo_rl.core import sigterm_unwinds

from ..rigs.signals import handled


@pytest.fixture
def heeds_ctrl_c() -> Iterator[None]:
    """Ctrl-C raises KeyboardInterrupt, which a shell may let programs in the background ignore."""
    with handled(signal.SIGINT, signal.default_int_handler):
        yield


@pytest.mark.usefixtures("heeds_ctrl_c")
@pytest.mark.parametrize(("number", "raised"), [(signal.SIGTERM, SystemExit), (signal.SIGINT, KeyboardInterrupt)])
def test_a_signal_cancels_every_connection(number: signal.Signals, raised: type[BaseException]) -> None:
    """Also one that is busy when the signal comes, which would otherwise get its exception."""
    endings: list[str] = []

    async def connection() -> None:
        try:
            while True:
                sum(range(100_000))
                await asyncio.sleep(0)
        except asyncio.CancelledError:
            endings.append("cancelled")
            raise
        except BaseException as error:
            endings.append(type(error).__name__)
            raise

    async def serve() -> None:
        connections = [asyncio.create_task(connection()) for _ in range(3)]
        asyncio.get_running_loop().call_later(0.05, os.kill, os.getpid(), number)
        async with asyncio.timeout(60):
            await asyncio.gather(*connections)

    with sigterm_unwinds():
        before = signal.getsignal(signal.SIGTERM)
        with pytest.raises(raised) as error:
            run_until_signal(serve())
        assert signal.getsignal(signal.SIGTERM) is before
    assert endings == ["cancelled"] * 3
    if number == signal.SIGTERM:
        assert error.value.args == (143,)


def test_a_server_that_ends_or_fails_ends_the_loop() -> None:
    async def end() -> None: ...

    async def fail() -> None:
        raise OSError("address in use")

    run_until_signal(end())
    with pytest.raises(OSError, match="address in use"):
        run_until_signal(fail())
