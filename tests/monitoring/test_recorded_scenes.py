"""Scenes of recorded episodes for the data page: computed in a process without the page's own imports, and checked."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("websockets")

from robo_rl.core import DataError
from robo_rl.monitoring import recorded_scenes
from robo_rl.monitoring.recorded_scenes import RecordedScenes, checked_scene

from ..rigs import data_page
from ..rigs.data_page import listed, recorded
from ..rigs.recorded_arm import record_arm

PATIENCE_SECONDS = 240.0
"""The process imports MuJoCo, on a machine that others keep busy."""


def test_the_page_receives_scenes_and_reasons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_page, "PATIENCE_SECONDS", PATIENCE_SECONDS)
    record_arm(tmp_path / "arm")
    recorded(tmp_path / "numbers")
    arm, numbers = str(tmp_path / "arm"), str(tmp_path / "numbers")
    _, about, scene, same, absent, other, described = listed(
        tmp_path,
        {"request": "describe", "path": arm},
        {"request": "scene", "path": arm, "episode": 1},
        {"request": "scene", "path": arm, "episode": 1},
        {"request": "scene", "path": arm, "episode": 9},
        {"request": "scene", "path": numbers, "episode": 0},
        {"request": "describe", "path": numbers},
    )
    assert about["joints"] and not described["joints"]
    assert len(scene["frames"]) == about["steps"][1] + 1 and scene["stride"] == 1
    assert "goal" in scene["geometry"]["bodies"] and scene["note"].startswith("The recorded states are shown")
    assert scene["frames"][0]["poses"] != scene["frames"][-1]["poses"]
    assert same["frames"] == scene["frames"]
    assert "there is no episode 9" in absent["error"]
    assert "does not store the configuration of its task" in other["error"]


def test_a_process_that_ends_or_hangs_costs_its_scene_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record_arm(tmp_path / "arm", episodes=1)
    monkeypatch.setattr(recorded_scenes, "own_command", lambda module: ["true"])
    scenes = RecordedScenes()
    with pytest.raises(DataError, match=r"its process has ended|its process failed"):
        asyncio.run(scenes.scene(tmp_path / "arm", 0))
    monkeypatch.setattr(recorded_scenes, "own_command", lambda module: ["sh", "-c", "sleep 600", "sh"])
    monkeypatch.setattr(recorded_scenes, "SCENE_SECONDS", 0.5)
    with pytest.raises(DataError, match=r"it has not come within 0\.5 s"):
        asyncio.run(RecordedScenes().scene(tmp_path / "arm", 0))
    monkeypatch.setattr(recorded_scenes, "SCENE_SECONDS", 60.0)
    monkeypatch.setattr(recorded_scenes, "own_command", lambda module: ["sh", "-c", "yes", "sh"])
    with pytest.raises(DataError, match="its process failed"):  # lines that are no JSON
        asyncio.run(RecordedScenes().scene(tmp_path / "arm", 0))


def test_scenes_of_another_form_are_refused() -> None:
    geometry: dict[str, Any] = {
        "version": "1", "bodies": ["link"], "geoms": [], "meshes": [], "box": [], "camera": [0.0] * 7,
    }  # fmt: skip
    frame = {"version": "1", "poses": [0.0] * 7, "tip": [0.0] * 3, "changed": []}
    scene = {"geometry": geometry, "frames": [frame], "stride": 1, "note": "nothing", "more": 1}
    assert checked_scene(scene) == {"geometry": geometry, "frames": [frame], "stride": 1, "note": "nothing"}
    changes: tuple[dict[str, Any], ...] = (
        {"frames": None},
        {"stride": 0},
        {"frames": [frame] * 500},
        {"geometry": {}},
        {"frames": [3]},
    )
    for change in changes:
        with pytest.raises(DataError):
            checked_scene(json.loads(json.dumps(scene | change)))
