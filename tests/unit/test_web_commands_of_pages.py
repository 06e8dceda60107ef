"""What a page of robo-rl web asks for, and a run that was chosen a moment ago."""

import json
from pathlib import Path

import pytest

pytest.importorskip("websockets")

from robo_rl.commands.web import Dashboard, WatchConfig


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
    assert dashboard._command(Path(other), "emergency_stop", "") == "Robots are stopped"
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
    answer = dashboard._command(Path(other), "emergency_stop", "")
    assert answer == "Robots are stopped" and (tmp_path / "mine" / "robo_rl" / "emergency_stop").exists()


def test_a_page_that_shows_no_run_stops_the_robots_of_this_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    dashboard = Dashboard(WatchConfig([str(tmp_path)], newest=5, interval=1.0))
    assert dashboard._command(None, "pause", "") == "no run is chosen"
    assert dashboard._command(None, "emergency_stop", "") == "Robots are stopped"
    assert (tmp_path / "robo_rl" / "emergency_stop").exists()
