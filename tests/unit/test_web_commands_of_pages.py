"""What a page of robo-rl web asks for, and a run that was chosen a moment ago."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

pytest.importorskip("websockets")

from websockets.exceptions import ConnectionClosedError

from robo_rl.commands.web import Dashboard, WatchConfig
from robo_rl.telemetry import LiveRun


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    folders = [tmp_path / name for name in "ab"]
    for folder in folders:
        folder.mkdir()
        (folder / "config.yaml").write_text(f"seed: 1\nsafety:\n  emergency_stop:\n    file: {folder / 'stop'}\n")
        (folder / "metrics.jsonl").write_text(json.dumps({"step": 1, "wall_seconds": 0.1, "kind": "train"}) + "\n")
    return folders


def test_an_emergency_stop_of_a_run_that_nobody_looked_at_yet_is_pressed(runs: list[Path]) -> None:
    dashboard = Dashboard(WatchConfig([str(folder) for folder in runs], newest=5, interval=1.0))
    shown = dashboard._look(None)
    (other,) = [run["path"] for run in shown["runs"] if run["path"] != shown["run"]["path"]]
    assert dashboard._command(other, "emergency_stop", "") == {"answer": "Robots are stopped", "stopped": other}
    assert [(folder / "stop").exists() for folder in runs] == [str(folder) == other for folder in runs]


def test_where_a_run_cannot_be_read_the_stop_of_this_user_is_pressed(
    runs: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "mine"))
    dashboard = Dashboard(WatchConfig([str(folder) for folder in runs], newest=5, interval=1.0))
    shown = dashboard._look(None)
    (other,) = [run["path"] for run in shown["runs"] if run["path"] != shown["run"]["path"]]
    (Path(other) / "metrics.jsonl").write_text("rubbish\n")
    (Path(other) / "config.yaml").write_text("safety: [")
    told = dashboard._command(other, "emergency_stop", "")
    assert told["stopped"] == other and (tmp_path / "mine" / "robo_rl" / "emergency_stop").exists()


def test_a_page_that_shows_no_run_stops_the_robots_of_this_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    dashboard = Dashboard(WatchConfig([str(tmp_path)], newest=5, interval=1.0))
    assert dashboard._command(None, "pause", "") == {"answer": "no run is chosen"}
    assert dashboard._command(None, "emergency_stop", "") == {"answer": "Robots are stopped", "stopped": None}
    assert (tmp_path / "robo_rl" / "emergency_stop").exists()


def test_a_run_that_was_chosen_before_the_server_started_has_its_own_stop_pressed(
    runs: list[Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "mine"))
    dashboard = Dashboard(WatchConfig([str(folder) for folder in runs], newest=1, interval=1.0))
    told = dashboard._command(str(runs[0]), "emergency_stop", "")
    assert told == {"answer": "Robots are stopped", "stopped": str(runs[0])}
    assert [(folder / "stop").exists() for folder in runs] == [True, False] and not (tmp_path / "mine").exists()


def test_why_no_step_is_taken_in_is_told_while_the_run_goes_on(runs: list[Path]) -> None:
    dashboard = Dashboard(WatchConfig([str(folder) for folder in runs], newest=5, interval=1.0))
    line = {"step": 1, "wall_seconds": 0.1, "kind": "runtime", "blocked": "no space left"}
    (runs[0] / "metrics.jsonl").write_text(json.dumps(line) + "\n")
    told = ("blocked", "no steps are taken in: no space left")
    with LiveRun(runs[0]):
        assert told in dashboard._look_at(runs[0])["facts"]
    assert told not in dashboard._look_at(runs[0])["facts"]


def test_a_stop_that_was_not_pressed_is_not_confirmed(runs: list[Path]) -> None:
    dashboard = Dashboard(WatchConfig([str(folder) for folder in runs], newest=5, interval=1.0))
    (runs[0] / "config.yaml").write_text("seed: 1\nsafety: {}\n")
    assert dashboard._command(str(runs[0]), "emergency_stop", "") == {
        "answer": "This run has no emergency stop (safety=none)"
    }
    (runs[1] / "config.yaml").write_text(f"safety:\n  emergency_stop:\n    file: {runs[1] / 'gone' / 'stop'}\n")
    dashboard._look_at(runs[1])
    (runs[1] / "gone").rmdir()
    (runs[1] / "gone").touch()  # no folder can be made there
    told = dashboard._command(str(runs[1]), "emergency_stop", "")
    assert list(told) == ["answer"] and str(told["answer"]).startswith("ROBOTS ARE NOT STOPPED")


class Page:
    """A page that says something and is gone before it is told anything."""

    async def send(self, message: str | bytes) -> None:
        raise ConnectionClosedError(None, None)

    async def __aiter__(self) -> AsyncIterator[str]:
        await asyncio.sleep(0.2)
        yield json.dumps({"command": "emergency_stop", "run": None})


def test_an_emergency_stop_counts_though_its_page_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    asyncio.run(Dashboard(WatchConfig([str(tmp_path)], newest=5, interval=1.0)).serve(Page()))
    assert (tmp_path / "robo_rl" / "emergency_stop").exists()
