"""Answers of the data page of robo-rl web, and the data sets that it saves."""

import asyncio
import dataclasses
import json
import shutil
import time
from pathlib import Path
from threading import Event
from typing import Any

import cv2
import numpy as np
import pytest

pytest.importorskip("websockets")

from robo_rl.core import ArraySpec, ConfigError
from robo_rl.monitoring import data_page, watched_data
from robo_rl.monitoring.data_page import DataPage, edit_settings
from robo_rl.operators import stop_button
from robo_rl.recording import edits as edits_module
from robo_rl.replay import EpisodeStore
from robo_rl.web.reading import Readers

from ..rigs.command_line import robo_rl
from ..rigs.data_page import PRESS, AskingPage, answers_to, listed, recorded
from ..rigs.replay_episodes import SPEC, assert_same, make_episode

EDITS = {"drop": [0], "segments": ["1:0-4", "1:6-12:failure"], "mark_success": [2], "mark_failure": []}


def test_data_sets_and_their_episodes_are_described(tmp_path: Path) -> None:
    recorded(tmp_path / "sets" / "mine")
    recorded(tmp_path / "sets" / "run" / "demonstrations", (4,))
    path = str(tmp_path / "sets" / "mine")
    found, about, flags = listed(
        tmp_path / "sets", {"request": "describe", "path": path}, {"request": "flags", "path": path}
    )
    assert [(each["name"], each["episodes"], each["steps"]) for each in found["sets"]] == [
        ("mine", 3, 24),
        ("run/demonstrations", 1, 4),
    ]
    assert found["sets"][0]["bytes"] == sum(
        file.stat().st_size for file in (tmp_path / "sets" / "mine").rglob("*") if file.is_file()
    )
    assert found["sets"][0]["seconds"] == pytest.approx(2.4) and found["notes"] == []
    assert about["steps"] == [7, 12, 5] and about["cameras"] == ["images/front"] and len(about["success"]) == 3
    assert len(flags["flags"]) == 3 and "failure" in flags["meanings"] and not flags["unchecked"]
    assert all("exposure" not in each for each in flags["flags"]) and "clock" not in flags["flags"][0]


def decoded(picture: bytes) -> Any:
    """Return the pixels of a JPEG file (height, width, 3), RGB."""
    return cv2.cvtColor(cv2.imdecode(np.frombuffer(picture, np.uint8), cv2.IMREAD_COLOR), cv2.COLOR_BGR2RGB)


def test_pictures_and_signals_are_those_of_the_recording(tmp_path: Path) -> None:
    episodes = recorded(tmp_path / "mine")
    where = {"path": str(tmp_path / "mine"), "episode": 1}
    last = {"request": "picture", **where, "row": 12, "camera": "images/front"}
    small = {"request": "thumbnail", **where}
    _, image, middle, strip, signals = listed(
        tmp_path, last, small | {"pictures": 1}, small | {"pictures": 3}, {"request": "signals", **where}
    )
    pixels = decoded(image)
    expected = episodes[1][-1].next_observation["images/front"]
    assert pixels.shape == expected.shape
    assert np.abs(pixels.mean((0, 1)) - expected.mean((0, 1))).max() < 5
    first, expected_middle = (episodes[1][step].observation["images/front"] for step in (0, 6))
    assert decoded(middle).shape == (160, 160, 3) and decoded(strip).shape == (160, 488, 3)
    parts = [decoded(strip)[:, start : start + 160] for start in (0, 164, 328)]
    for part, original in zip(parts, (first, expected_middle, expected), strict=True):
        enlarged = cv2.resize(original, (160, 160), interpolation=cv2.INTER_AREA)
        assert np.abs(part.astype(float) - enlarged).mean() < 20, "the first, the middle and the last picture"
    plots = {plot["title"]: plot for plot in signals["plots"]}
    assert list(plots) == ["executed action", "proposed action", "reward terms", "state: x", "state: y", "state: z"]
    assert plots["state: x"]["names"] == ["x"] and signals["stride"] == 1 and signals["unplotted"] == []
    np.testing.assert_allclose(plots["state: x"]["values"][0][3], episodes[1][3].observation["state"][0], rtol=1e-4)
    assert [len(line) for line in plots["executed action"]["values"]] == [12, 12]


def test_without_pictures_lines_are_drawn_and_long_episodes_are_thinned(tmp_path: Path) -> None:
    for name, names in (("path", ("tip_x", "tip_y", "tip_z")), ("other", ("a", "b", "c"))):
        spec = dataclasses.replace(SPEC, observation={"state": ArraySpec((3,), names=names), "scan": ArraySpec((500,))})
        with EpisodeStore.create(tmp_path / name, spec) as store:
            store.append_episode(make_episode(0, 1500, spec))
        where = {"path": str(tmp_path / name), "episode": 0}
        small = {"request": "thumbnail", **where}
        _, one, all_of_them, signals = listed(
            tmp_path, small | {"pictures": 1}, small | {"pictures": 3}, {"request": "signals", **where}
        )
        terms = "sum of the reward terms"
        kinds = ["path", terms] if name == "path" else [terms]
        assert [each["kind"] for each in all_of_them["drawings"]] == kinds
        assert one["drawings"] == all_of_them["drawings"][:1]
        for drawing in all_of_them["drawings"]:
            points = np.array(drawing["line"])
            assert 50 <= len(points) <= 60 and points.min() >= 0 and points.max() <= 1
        assert signals["stride"] == 4 and signals["unplotted"] == ["scan"]
        assert max(len(line) for plot in signals["plots"] for line in plot["values"]) <= 400


def test_a_sparse_reward_is_not_drawn_but_the_norm_of_the_action(tmp_path: Path) -> None:
    spec = dataclasses.replace(SPEC, observation={"state": ArraySpec((3,))}, reward_terms=("success",))
    steps = [dataclasses.replace(step, rewards={"success": 0.0}) for step in make_episode(0, 30, spec)]
    steps[-1] = dataclasses.replace(steps[-1], rewards={"success": 1.0})
    with EpisodeStore.create(tmp_path / "mine", spec) as store:
        store.append_episode(steps)
    request = {"request": "thumbnail", "path": str(tmp_path / "mine"), "episode": 0, "pictures": 3}
    _, answer = listed(tmp_path, request)
    (drawing,) = answer["drawings"]
    norms = np.array([np.linalg.norm(step.executed_action) for step in steps])
    assert drawing["kind"] == "norm of the action"
    np.testing.assert_allclose([point[1] for point in drawing["line"]], norms / norms.max(), rtol=1e-3)


def test_actions_and_observations_are_thinned_alike(tmp_path: Path) -> None:
    (steps,) = recorded(tmp_path / "mine", (400,))
    *_, signals = listed(tmp_path, {"request": "signals", "path": str(tmp_path / "mine"), "episode": 0})
    plots = {plot["title"]: plot["values"][0] for plot in signals["plots"]}
    assert signals["stride"] == 2
    assert (len(plots["executed action"]), len(plots["state: x"])) == (200, 201)
    np.testing.assert_allclose(plots["executed action"][150], steps[300].executed_action[0], rtol=1e-4)


def test_numbers_that_rounding_makes_infinite_are_left_out() -> None:
    assert watched_data._rounded(np.array([[np.finfo(np.float64).max, np.nan, 1.5]])) == [[None, None, 1.5]]


def test_an_edit_is_the_same_as_that_of_the_command(tmp_path: Path) -> None:
    episodes = recorded(tmp_path / "mine")
    details = {"path": str(tmp_path / "mine"), "name": "clean", "edits": EDITS}
    page = DataPage([str(tmp_path / "mine")])
    _, equivalent, saved, found, again = answers_to(
        page,
        {"request": "list"},
        {"request": "command", **details},
        {"request": "save", **details},
        {"request": "list"},
        {"request": "save", **details},
    )
    assert equivalent["command"] == (
        f"robo-rl data edit path={tmp_path}/mine output={tmp_path}/clean 'drop=[0]' 'mark_success=[2]' "
        "'segments=[1:0-4,1:6-12:failure]'"
    )
    assert equivalent["problem"] == "" and saved["summary"].startswith(f"{tmp_path}/clean holds 3 episodes")
    assert [each["name"] for each in found["sets"]] == ["mine", "clean"], "also if only its source was named"
    assert "exists already" in again["error"]
    (tmp_path / "clean").rename(tmp_path / "saved")
    words = [word.strip("'") for word in equivalent["command"].split(" ")[1:]]
    robo_rl(*words)
    for name in ("dataset.json", "episodes.jsonl"):
        assert (tmp_path / "saved" / name).read_bytes() == (tmp_path / "clean" / name).read_bytes()
    with EpisodeStore.open(tmp_path / "saved") as one, EpisodeStore.open(tmp_path / "clean") as other:
        for number in range(3):
            assert_same(one.episode(number), other.episode(number))
        assert_same(one.episode(0)[:3], episodes[1][:3])
        assert [record.success for record in one.records[1:]] == [False, True]
    with EpisodeStore.open(tmp_path / "mine") as store:
        assert_same(store.episode(2), episodes[2])


@pytest.mark.parametrize(
    ("name", "edits", "complaint"),
    [
        ("../clean", {}, "name must be letters"),
        ("..", {}, "name must be letters"),
        ("a/b", {}, "name must be letters"),
        (".hidden", {}, "name must be letters"),
        ("-rf", {}, "name must be letters"),
        ("clean\n", {}, "name must be letters"),
        ("x" * 65, {}, "name must be letters"),
        ("mine.partial-1", {}, "name must be letters"),
        ("", {}, "name must be letters"),
        (5, {}, "name must be letters"),
        ("clean", [], "edits must be lists"),
        ("clean", {"drop": "all"}, "edits.drop must be a list"),
        ("clean", {"drop": [True]}, "edits.drop must be a list"),
        ("clean", {"drop": [-1]}, "edits.drop must be a list"),
        ("clean", {"drop": [0] * 20_001}, "edits.drop must be a list"),
        ("clean", {"segments": ["${oc.env:HOME}"]}, "edits.segments must be a list"),
        ("clean", {"segments": ["1:4-2"]}, "is not a segment"),
        ("mine", {}, "is in the data set"),
    ],
)
def test_messages_that_are_not_valid_are_refused(name: object, edits: object, complaint: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=complaint):
        edit_settings(tmp_path / "mine", {"name": name, "edits": edits})


def test_requests_that_are_not_valid_are_answered(tmp_path: Path) -> None:
    recorded(tmp_path / "mine")
    path = str(tmp_path / "mine")
    elsewhere = tmp_path.parent / f"{tmp_path.name}_elsewhere"
    recorded(elsewhere)
    requests: list[tuple[dict[str, Any], str]] = [
        ({"request": "describe", "path": str(elsewhere)}, "no such data set"),
        ({"request": "describe"}, "no such data set"),
        ({"request": "delete", "path": path}, "no request 'delete'"),
        ({"request": ["list"], "path": path}, "no request"),
        ({"request": "signals", "path": path, "episode": 3}, "no episode 3"),
        ({"request": "signals", "path": path, "episode": -1}, "no episode -1"),
        ({"request": "thumbnail", "path": path, "episode": "0"}, "must be a whole number"),
        ({"request": "thumbnail", "path": path, "episode": 0, "pictures": 2}, "expected 1 or 3 pictures"),
        ({"request": "picture", "path": path, "episode": 0, "row": 8, "camera": "images/front"}, "no row 8"),
        ({"request": "picture", "path": path, "episode": 0, "row": 0, "camera": "state"}, "no camera 'state'"),
        ({"request": "save", "path": path, "name": "new", "edits": {"drop": [3]}}, "there is no episode 3"),
        ({"request": "save", "path": path, "name": "new", "edits": {"drop": [0, 1, 2]}}, "no episode is left"),
    ]
    _, *answers = listed(tmp_path, *(request for request, _ in requests))
    for answer, (request, complaint) in zip(answers, requests, strict=True):
        assert complaint in answer["error"], request
    assert [each.name for each in tmp_path.iterdir()] == ["mine"]


def test_a_data_set_is_saved_though_its_page_leaves_and_only_one_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded(tmp_path / "mine")
    save = {"request": "save", "path": str(tmp_path / "mine"), "edits": {"drop": [0]}}

    class Leaving(AskingPage):
        async def __aiter__(self) -> Any:
            yield json.dumps({"number": 0, "request": "list"})
            while not self.answers:
                await asyncio.sleep(0.01)
            yield json.dumps({"number": 1, "name": "first", **save})
            await asyncio.sleep(0.05)

    release = asyncio.Event()

    async def run() -> None:
        loop = asyncio.get_running_loop()
        original = edits_module.edit

        def edit(*arguments: Any) -> Any:
            asyncio.run_coroutine_threadsafe(release.wait(), loop).result()
            return original(*arguments)

        monkeypatch.setattr(data_page, "edit", edit)
        page, second = DataPage([str(tmp_path)]), AskingPage({"name": "second", **save})
        await page.serve(Leaving())
        await page.serve(second)
        assert "first is being saved" in second.answers[0]["error"]
        assert second.messages[0]["saving"]["name"] == "first"
        release.set()
        async with asyncio.timeout(60):
            while page._saving is not None:
                await asyncio.sleep(0.01)

    asyncio.run(run())
    assert sorted(each.name for each in tmp_path.iterdir()) == ["first", "mine"]


def test_what_is_not_listed_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "abcd":
        recorded(tmp_path / "sets" / name)
    for most, complaint in ((4, None), (3, "1 of 4 data sets are not shown"), (1, "3 of 4 data sets are not shown")):
        monkeypatch.setattr(data_page, "MOST_DATA_SETS", most)
        (answer,) = listed(tmp_path / "sets")
        assert len(answer["sets"]) == most
        assert [complaint] == [note.partition(";")[0] for note in answer["notes"]] or complaint is None


def test_a_long_save_is_neither_given_up_nor_joined_by_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded(tmp_path / "mine")
    save = {"request": "save", "path": str(tmp_path / "mine"), "name": "new", "edits": {"drop": [0]}}
    original = data_page.edit

    def slow(*arguments: Any) -> Any:
        time.sleep(0.5)
        return original(*arguments)

    monkeypatch.setattr(data_page, "edit", slow)
    page = DataPage([str(tmp_path)])
    answers_to(page, {"request": "list"})
    page._readers, page._flag_readers = Readers(0.2), Readers(0.2)
    (saved,) = answers_to(page, save)
    assert saved["saved"] == str(tmp_path / "new")


def test_a_data_set_that_has_grown_is_read_again(tmp_path: Path) -> None:
    recorded(tmp_path / "mine")
    page = DataPage([str(tmp_path)])
    about = {"request": "describe", "path": str(tmp_path / "mine")}
    assert answers_to(page, {"request": "list"}, about)[1]["steps"] == [7, 12, 5]
    with EpisodeStore.open(tmp_path / "mine", "a") as store:
        store.append_episode(make_episode(3, 9))
    assert answers_to(page, about)[0]["steps"] == [7, 12, 5, 9]


def test_without_data_sets_the_reason_is_given(tmp_path: Path) -> None:
    (answer,) = listed(tmp_path / "nothing")
    assert answer["sets"] == [] and "record one with robo-rl record" in answer["notes"][0]


def test_a_late_answer_of_a_folder_is_not_that_of_its_data_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded(tmp_path / "mine")
    path, release = str(tmp_path / "mine"), Event()
    original = data_page.data_sets_in

    def slow(pattern: str) -> Any:
        release.wait(10)
        return original(pattern)

    monkeypatch.setattr(data_page, "READ_SECONDS", 1.5)
    page = DataPage([path])
    page._saved.append(Path(path))
    monkeypatch.setattr(data_page, "data_sets_in", slow)
    (late,) = answers_to(page, {"request": "list"})
    release.set()
    assert "no answer" in late["notes"][0] and [each["episodes"] for each in late["sets"]] == [3]


@pytest.mark.parametrize("request_name", ["command", "save"])
def test_an_emergency_stop_does_not_wait_for_the_folder_of_an_edit(
    request_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded(tmp_path / "mine")
    release, original, in_time = Event(), edits_module._check_paths, []

    def hang(settings: Any) -> None:
        in_time.append(release.wait(5))
        original(settings)

    class Stopping(AskingPage):
        async def __aiter__(self) -> Any:
            yield json.dumps({"number": 0, "request": "list"})
            while not self.answers:
                await asyncio.sleep(0.01)
            monkeypatch.setattr(edits_module, "_check_paths", hang)
            edit = {"number": 1, "request": request_name, "path": str(tmp_path / "mine"), "name": "new"}
            yield json.dumps({**edit, "edits": {"drop": [0]}})
            await asyncio.sleep(0.1)
            yield json.dumps(PRESS)
            while len(self.answers) < 2:
                await asyncio.sleep(0.01)
            release.set()
            while not in_time:  # the thread of the edit does not end with the page
                await asyncio.sleep(0.01)

    monkeypatch.setattr(stop_button, "press_emergency_stop", lambda: "")
    page = Stopping()
    asyncio.run(DataPage([str(tmp_path)]).serve(page))
    assert page.answers[1]["stopped"] == "data page" and in_time == [True]


def test_a_saved_data_set_is_listed_until_it_is_removed(tmp_path: Path) -> None:
    recorded(tmp_path / "mine")
    path = str(tmp_path / "mine")
    page = DataPage([path])
    save = {"request": "save", "path": path, "name": "new", "edits": {"drop": [0]}}
    *_, both = answers_to(page, {"request": "list"}, save, {"request": "list"})
    shutil.rmtree(tmp_path / "new")
    (one,) = answers_to(page, {"request": "list"})
    assert [[each["name"] for each in answer["sets"]] for answer in (both, one)] == [["mine", "new"], ["mine"]]


@pytest.mark.parametrize("named", [".", "inner/.."])
def test_the_current_folder_can_be_the_data_set(named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded(tmp_path / "mine")
    monkeypatch.chdir(tmp_path / "mine")
    if named != ".":
        Path("inner").mkdir()
    path = str(tmp_path / "mine")
    command = {"request": "command", "path": path, "name": "new", "edits": {"drop": [0]}}
    found, answer = answers_to(DataPage([named]), {"request": "list"}, command)
    assert found["sets"][0]["name"] == "mine" and f"output={tmp_path / 'new'}" in answer["command"]


def test_an_episode_of_too_large_actions_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded(tmp_path / "mine", (400,))
    where = {"path": str(tmp_path / "mine"), "episode": 0}
    of_state = 401 * SPEC.observation["state"].nbytes
    monkeypatch.setattr(watched_data, "NUMBERS_BYTES", of_state)
    _, *answers = listed(tmp_path, {"request": "signals", **where}, {"request": "flags", **where})
    assert all("an episode has" in answer["error"] for answer in answers)
