"""Scenes of active runs for pages: honest ones arrive, and what a foreign run claims is checked and bounded."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from robo_rl.actor import SceneView
from robo_rl.actor.scene_geometry import MOST_BODIES, MOST_GEOMS
from robo_rl.actor.scene_meshes import MOST_TRIANGLES
from robo_rl.core import DataError, Verdict
from robo_rl.monitoring.live_scenes import checked_frame, checked_geometry, new_scenes
from robo_rl.sim import make_backend
from robo_rl.telemetry import LiveRun, LiveStatus

POSE = [0, 0, 0, 1, 0, 0, 0]
PATIENCE_SECONDS = 60.0


def base64_of(values: Any, kind: str) -> str:
    return base64.b64encode(np.array(values, kind).tobytes()).decode()


def a_mesh(triangles: int = 1) -> dict[str, str]:
    return {"vertices": base64_of([0, 0, 0, 1, 0, 0, 0, 1, 0], "<f4"), "faces": base64_of([0, 1, 2] * triangles, "<u2")}


def a_geom(**changes: Any) -> dict[str, Any]:
    return {"type": "box", "size": [1, 1, 1], "colour": [1, 0, 0, 1], "body": 0, "pose": POSE} | changes


def a_geometry(**changes: Any) -> dict[str, Any]:
    geoms = [a_geom(), a_geom(type="mesh", mesh=0, body=1)]
    camera = [1, 1, 1, 0, 0, 0, 45]
    scene = {"version": "1", "bodies": ["link"], "geoms": geoms, "meshes": [a_mesh()], "box": [], "camera": camera}
    return scene | changes


def a_frame(**changes: Any) -> dict[str, Any]:
    return {"version": "1", "poses": POSE, "tip": [0, 0, 0], "force": [0, 0, 1], "changed": ["workspace"]} | changes


def test_the_scene_of_a_short_run_arrives(tmp_path: Path) -> None:
    backend = make_backend("pick_cube")
    step = backend.reset(seed=0)
    view = SceneView(backend)
    sent: dict[tuple[str, str], int] = {}
    frames = []
    with LiveRun(tmp_path) as run:
        for number in range(3):
            step = backend.step(np.full(4, 0.5, np.float32))
            view.note(Verdict(changed=number == 1, reasons=("workspace",) * (number == 1)))
            run.show_scene("local", *view.take(step.observation, always=True))
            parts = new_scenes(tmp_path, sent)
            sent |= {part.key: part.stamp for part in parts}
            assert [list(part.message) for part in parts][:1] == [["robot", "frame" if number else "geometry"]]
            frames.append(parts[-1].message["frame"])
            assert not new_scenes(tmp_path, sent)
        assert run.watched, "reading marks the run as watched"
    assert not new_scenes(tmp_path, {})
    assert [frame["changed"] for frame in frames] == [[], ["workspace"], []]
    assert len({tuple(frame["tip"]) for frame in frames}) == 3


def test_what_is_sent_has_known_fields_alone() -> None:
    assert checked_geometry(a_geometry(more=[1], geoms=[a_geom(more=2)])) == a_geometry(geoms=[a_geom()])
    assert checked_frame(a_frame(more=3)) == a_frame()
    assert checked_frame({"version": "1", "poses": [], "changed": []}) == {"version": "1", "poses": [], "changed": []}
    long = checked_frame(a_frame(changed=["a\n\x1b[2J" + "b" * 1000]))["changed"][0]
    assert len(long) <= 64 and long.isprintable()


GEOMETRIES: dict[str, Callable[[], Any]] = {
    "a list": lambda: [],
    "nothing": lambda: None,
    "bodies": lambda: a_geometry(bodies=["b"] * (MOST_BODIES + 1)),
    "geoms": lambda: a_geometry(geoms=[a_geom()] * (MOST_GEOMS + 1)),
    "a body that is not there": lambda: a_geometry(geoms=[a_geom(body=2)]),
    "a body below 0": lambda: a_geometry(geoms=[a_geom(body=-1)]),
    "true as a body": lambda: a_geometry(geoms=[a_geom(body=True)]),
    "a mesh that is not there": lambda: a_geometry(geoms=[a_geom(type="mesh", mesh=1)]),
    "another type": lambda: a_geometry(geoms=[a_geom(type="__proto__")]),
    "a list as type": lambda: a_geometry(geoms=[a_geom(type=["box"])]),
    "an infinite size": lambda: a_geometry(geoms=[a_geom(size=[1, 1, float("inf")])]),
    "a size beyond all": lambda: a_geometry(geoms=[a_geom(size=[1, 1, 10**400])]),
    "NaN in a pose": lambda: a_geometry(geoms=[a_geom(pose=[float("nan"), *POSE[1:]])]),
    "a short pose": lambda: a_geometry(geoms=[a_geom(pose=POSE[1:])]),
    "texts as numbers": lambda: a_geometry(camera=["1"] * 7),
    "half a box": lambda: a_geometry(box=[0, 0, 0]),
    "triangles": lambda: a_geometry(meshes=[a_mesh(MOST_TRIANGLES), a_mesh()]),
    "no triangles": lambda: a_geometry(meshes=[a_mesh(0)]),
    "a corner that is not there": lambda: a_geometry(meshes=[a_mesh() | {"faces": base64_of([0, 1, 3], "<u2")}]),
    "vertices that are not finite": lambda: a_geometry(
        meshes=[a_mesh() | {"vertices": base64_of([np.nan] * 9, "<f4")}]
    ),
    "half a vertex": lambda: a_geometry(meshes=[a_mesh() | {"vertices": base64_of([0] * 4, "<f4")}]),
    "no base64": lambda: a_geometry(meshes=[a_mesh() | {"faces": "<script>"}]),
    "a number as vertices": lambda: a_geometry(meshes=[a_mesh() | {"vertices": 7}]),
    "no version": lambda: {key: value for key, value in a_geometry().items() if key != "version"},
}


@pytest.mark.parametrize("name", GEOMETRIES)
def test_false_geometries_are_rejected(name: str) -> None:
    with pytest.raises(DataError, match="expected"):
        checked_geometry(GEOMETRIES[name]())


@pytest.mark.parametrize(
    "changes",
    [
        {"poses": [0.0] * (7 * MOST_BODIES + 1)},
        {"poses": [1e9]},
        {"poses": [[0] * 7]},
        {"poses": {}},
        {"tip": [0, 0]},
        {"force": [0, 0, None]},
        {"changed": ["a"] * 100},
        {"changed": [3]},
        {"version": 1},
    ],
    ids=str,
)
def test_false_frames_are_rejected(changes: dict[str, Any]) -> None:
    with pytest.raises(DataError, match="expected"):
        checked_frame(a_frame(**changes))


@pytest.mark.parametrize("content", ["{", "[" * 100_000, '{"poses": [NaN]}', "1e400", "[]" + " " * (1 << 20), "\x00"])
def test_files_that_are_no_scenes_are_named_and_hide_no_other(content: str, tmp_path: Path) -> None:
    with LiveRun(tmp_path) as run:
        run.show_scene("honest", json.dumps(a_geometry()).encode(), json.dumps(a_frame()).encode())
        folder = tmp_path / "live" / "scenes"
        (folder / "false@frame.json").write_text(content)
        (folder / "false@other.json").write_text("{}")
        (folder / "linked@frame.json").symlink_to(tmp_path / "secret")
        for number in range(50):
            (folder / f"z{number}@frame.json").write_text(json.dumps(a_frame()))
        messages = [part.message for part in new_scenes(tmp_path, {})]
    assert len(messages) <= 16
    by_robot = {message["robot"]: message for message in messages if "geometry" not in message}
    assert by_robot["honest"]["frame"] == a_frame()
    assert by_robot["false"]["problem"].startswith("The scene of false cannot be shown: ")
    assert "linked" not in by_robot and str(tmp_path / "secret") not in str(messages)


class Viewing:
    """A page that is hidden at first, then shows scenes, and then pictures; ``received`` are the messages of each."""

    def __init__(self, run: LiveRun) -> None:
        self.run = run
        self.received: dict[str, list[str]] = {}
        self.was_watched = False
        self._views, self._is_going_on = "nothing", False

    async def send(self, message: str | bytes) -> None:
        if isinstance(message, bytes):
            self.received.setdefault(self._views, []).append("picture")
            return
        news = json.loads(message)
        self._is_going_on |= (news.get("run") or {}).get("going_on", False)
        if "scene" in news:
            self.received.setdefault(self._views, []).append(*(news["scene"].keys() - {"robot"}))

    async def __aiter__(self) -> AsyncIterator[str]:
        yield json.dumps({"views": "nothing"})
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not self._is_going_on:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.5)  # ten looks for something new
            self.was_watched = self.run.watched
            for self._views, last in (("scene", "frame"), ("cameras", "picture")):
                yield json.dumps({"views": self._views})
                while last not in self.received.get(self._views, []):
                    await asyncio.sleep(0.01)


def test_a_page_receives_what_it_shows_and_nothing_while_it_is_hidden(tmp_path: Path) -> None:
    pytest.importorskip("websockets")
    from robo_rl.monitoring.dashboard import Dashboard
    from robo_rl.monitoring.run_table import WatchConfig

    run = tmp_path / "run"
    run.mkdir()
    (run / "config.yaml").write_text("task: {name: reach}\nagent: {name: rlpd}\nseed: 3\n")
    (run / "metrics.jsonl").write_text(json.dumps({"step": 1, "wall_seconds": 0.1, "kind": "train"}) + "\n")
    with LiveRun(run) as live:
        live.report(LiveStatus("training"))
        live.show("local", {"front": b"jpeg"})
        live.show_scene("local", json.dumps(a_geometry()).encode(), json.dumps(a_frame()).encode())
        page = Viewing(live)
        asyncio.run(Dashboard(WatchConfig([str(run)], newest=5, interval=0.1)).serve(page))
        assert live.watched and not page.was_watched
    assert page.received == {"scene": ["geometry", "frame"], "cameras": ["picture"]}
