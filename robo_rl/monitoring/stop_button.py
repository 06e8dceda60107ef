"""The emergency stop of pages in the browser, which waits for nothing else that pages ask for."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from ..core import EmergencyStop, RoboRLError
from ..web.reading import Readers

PRESS_SECONDS = 5.0
"""Longest wait for the file system of this user."""


class StopButton:
    """Presses the emergency stop of all robots of this user for pages, and answers them.

    A press does not end with the page that asked for it.
    """

    def __init__(self) -> None:
        self._readers = Readers(PRESS_SECONDS)
        self._presses: set[asyncio.Task[None]] = set()

    def press(self, answer: Callable[[Mapping[str, Any]], Awaitable[None]], run: object) -> None:
        """Press the emergency stop; ``answer`` is called with the message for the page that shows ``run``."""
        task = asyncio.create_task(self._press(answer, run))
        self._presses.add(task)
        task.add_done_callback(self._presses.discard)

    async def _press(self, answer: Callable[[Mapping[str, Any]], Awaitable[None]], run: object) -> None:
        try:
            problem = await self._readers.call("stop", press_emergency_stop)
        except (RoboRLError, OSError) as error:  # a time-out is one
            problem = str(error)
        failure = {"answer": f"ROBOTS ARE NOT STOPPED: {problem}. Use the button that cuts the power"}
        await answer(failure if problem else {"answer": "Robots are stopped", "stopped": run})


def press_emergency_stop() -> str:
    """Press the emergency stop of all robots of this user; return the problem, or an empty string on success."""
    emergency = EmergencyStop()
    return "" if emergency.press("the page of robo-rl web") else f"{emergency.file} cannot be written"
