"""A page that asks the server of data pages, one request after another."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from robo_rl.core import Transition
from robo_rl.monitoring.data_page import DataPage
from robo_rl.replay import EpisodeStore

from .replay_episodes import SPEC, make_episode

PATIENCE_SECONDS = 60.0
PRESS = {"command": "emergency_stop", "run": "data page"}


class AskingPage:
    """A page that sends requests, each after the answer to the one before, and leaves after the last answer.

    Attributes:
        answers: answers to the requests: objects, or bytes of pictures.
        messages: all other messages.
    """

    def __init__(self, *requests: dict[str, Any]) -> None:
        self.answers: list[Any] = []
        self.messages: list[dict[str, Any]] = []
        self._requests = requests

    async def send(self, message: str | bytes) -> None:
        text, _, picture = (message if isinstance(message, bytes) else message.encode()).partition(b"\n")
        news = json.loads(text)
        if "number" in news or "answer" in news:
            self.answers.append(picture or news)
        else:
            self.messages.append(news)

    async def __aiter__(self) -> AsyncIterator[str]:
        async with asyncio.timeout(PATIENCE_SECONDS):
            for number, request in enumerate(self._requests):
                yield json.dumps({"number": number, **request})
                while len(self.answers) <= number:
                    await asyncio.sleep(0.005)


def answers_to(page: DataPage, *requests: dict[str, Any]) -> list[Any]:
    """Return the answers to ``requests``."""
    visit = AskingPage(*requests)
    asyncio.run(page.serve(visit))
    return visit.answers


def listed(folder: Path, *requests: dict[str, Any]) -> list[Any]:
    """Return the list of data sets in ``folder``, and the answers to ``requests``, by a new server."""
    return answers_to(DataPage([str(folder)]), {"request": "list"}, *requests)


def recorded(path: Path, lengths: tuple[int, ...] = (7, 12, 5)) -> list[list[Transition]]:
    """Make a data set of episodes of these lengths; return them."""
    episodes = [make_episode(number, steps) for number, steps in enumerate(lengths)]
    with EpisodeStore.create(path, SPEC, {"device": "keyboard"}) as store:
        store.append_episodes(episodes)
    return episodes
