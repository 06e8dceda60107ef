"""What a page of robo-rl web asks for, and a run that was chosen a moment ago."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("websockets")

from websockets.exceptions import ConnectionClosedError

from robo_rl.core import EmergencyStop
from robo_rl.monitoring.dashboard import Dashboard
from robo_rl.monitoring.run_table import WatchConfig
from robo_rl.telemetry import Command, LiveRun, LiveStatus

PATIENCE_SECONDS = 60.0
PRESS = {"command": "emergency_stop"}
PRESSED = "Robots are stopped"


class Page:
    """A page that says ``messages``, each after what it is told fulfils a condition, and leaves after the last."""

    def __init__(self, *messages: dict[str, Any], until: Callable[[dict[str, Any]], object] = bool) -> None:
        self.data: dict[str, Any] = {}
        self.answers: list[str] = []
        self._messages, self._until = messages, until

    async def send(self, message: str | bytes) -> None:
        news = json.loads(message if isinstance(message, str) else message.partition(b"\n")[0])
        self.data |= news
        if "answer" in news:
            self.answers.append(news["answer"])

    async def __aiter__(self) -> AsyncIterator[str]:
        async with asyncio.timeout(PATIENCE_SECONDS):
            for count, message in enumerate(self._messages):
                while len(self.answers) < count or not self._until(self.data):
                    await asyncio.sleep(0.01)
                yield json.dumps(message)
            while len(self.answers) < len(self._messages):
                await asyncio.sleep(0.01)


def visited(runs: list[Path], page: Page, newest: int = 5) -> Page:
    asyncio.run(Dashboard(WatchConfig([str(folder) for folder in runs], newest=newest, interval=0.1)).serve(page))
    return page


@pytest.fixture(autouse=True)
def emergency(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EmergencyStop:
    """The emergency stop of this user, in this test."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "mine"))
    return EmergencyStop()


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    folders = [tmp_path / name for name in "ab"]
    for folder in folders:
        folder.mkdir()
        (folder / "config.yaml").write_text(f"seed: 1\nsafety:\n  emergency_stop:\n    file: {folder / 'stop'}\n")
        (folder / "metrics.jsonl").write_text(json.dumps({"step": 1, "wall_seconds": 0.1, "kind": "train"}) + "\n")
    return folders


def test_a_stop_is_that_of_this_user_and_no_folder_says_where_it_is(runs: list[Path], emergency: EmergencyStop) -> None:
    precious = runs[0] / "stop"
    precious.write_text("a thesis")
    page = visited(runs, Page(PRESS | {"run": str(runs[0])}, until=lambda data: data.get("run")))
    assert page.data["answer"] == PRESSED and page.data["stopped"] == str(runs[0])
    assert emergency.pressed() == "the page of robo-rl web"
    assert precious.read_text() == "a thesis" and not (runs[1] / "stop").exists()


@pytest.mark.parametrize("config", ["safety: [", "seed: 1\nsafety: {}\n", "safety: {emergency_stop: {file: [1]}}", ""])
def test_no_configuration_keeps_a_stop_from_being_pressed(
    runs: list[Path], emergency: EmergencyStop, config: str
) -> None:
    for folder in runs:
        (folder / "config.yaml").write_text(config)
    page = visited(runs, Page(PRESS | {"run": str(runs[1])}, until=lambda data: data.get("run")))
    assert page.data["stopped"] == str(runs[1]) and emergency.pressed()
    assert "emergency_stop" not in page.data["run"]["refused"]


def test_a_page_that_shows_no_run_stops_the_robots_of_this_user(tmp_path: Path, emergency: EmergencyStop) -> None:
    page = visited([tmp_path], Page({"command": "pause"}, PRESS))
    assert page.answers == ["no run is chosen", PRESSED] and page.data["stopped"] is None and emergency.pressed()


def test_a_run_that_was_chosen_before_the_server_started_is_commanded(runs: list[Path]) -> None:
    with LiveRun(runs[0]) as run:
        run.report(LiveStatus("training"))
        page = visited(runs, Page({"command": "pause", "run": str(runs[0])}), newest=2)
        assert page.answers == ["pause: asked for"] and run.take_commands() == [Command("pause")]


def test_a_page_does_not_stay_with_a_run_that_was_removed(runs: list[Path]) -> None:
    """The folder goes after the server has listed it: a page that opened then showed it for ever."""

    class Listed(Dashboard):
        async def _find(self) -> tuple[list[Path], str]:
            paths, note = await super()._find()
            return ([runs[0].parent / "removed", *paths], note) if self._listed is None else (paths, note)

    page = Page({"command": "pause"}, until=lambda data: (data.get("run") or {}).get("path") in map(str, runs))
    asyncio.run(Listed(WatchConfig([str(folder) for folder in runs], newest=5, interval=0.1)).serve(page))
    assert page.answers == ["the run is not running, so it takes no commands"]


def test_commands_are_passed_on_in_their_order(runs: list[Path]) -> None:
    names = ["pause", "resume", "pause", "checkpoint"]
    with LiveRun(runs[0]) as run:
        run.report(LiveStatus("training"))
        visited(runs, Page(*({"command": name, "run": str(runs[0])} for name in names)))
        assert [command.name for command in run.take_commands()] == names


def test_why_no_step_is_taken_in_is_told_while_the_run_goes_on(runs: list[Path]) -> None:
    dashboard = Dashboard(WatchConfig([str(folder) for folder in runs], newest=5, interval=1.0))
    line = {"step": 1, "wall_seconds": 0.1, "kind": "runtime", "blocked": "no space left"}
    (runs[0] / "metrics.jsonl").write_text(json.dumps(line) + "\n")
    data = ("blocked", "no steps are accepted: no space left")
    with LiveRun(runs[0]):
        assert data in dashboard._look_at(runs[0])["facts"]
    assert data not in dashboard._look_at(runs[0])["facts"]


def test_a_stop_that_was_not_pressed_is_not_confirmed(
    runs: list[Path], emergency: EmergencyStop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EmergencyStop, "press", lambda self, reason: False)
    page = visited(runs, Page(PRESS))
    assert "stopped" not in page.data and page.answers[0].startswith("ROBOTS ARE NOT STOPPED")
    assert str(emergency.file) in page.answers[0]


class DeadPage:
    """A page that says something and is gone before it is told anything."""

    async def send(self, message: str | bytes) -> None:
        raise ConnectionClosedError(None, None)

    async def __aiter__(self) -> AsyncIterator[str]:
        await asyncio.sleep(0.2)
        yield json.dumps(PRESS | {"run": None})
        raise ConnectionClosedError(None, None)


def test_an_emergency_stop_counts_though_its_page_is_gone(tmp_path: Path, emergency: EmergencyStop) -> None:
    async def serve() -> None:
        dashboard = Dashboard(WatchConfig([str(tmp_path)], newest=5, interval=1.0))
        await dashboard.serve(DeadPage())
        while not emergency.pressed():
            await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(serve(), PATIENCE_SECONDS))
