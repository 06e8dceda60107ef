"""Hostile data sets: the data page does not hang, follows no links and shows the others."""

import asyncio
import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("websockets")

from robo_rl.core import EmergencyStop
from robo_rl.monitoring import page_requests, watched_data
from robo_rl.monitoring.data_page import DataPage
from robo_rl.web.reading import TURNS, Readers

from ..rigs.data_page import PRESS, AskingPage, answers_to, listed, recorded
from ..rigs.hostile_data import KINDS, make_hostile_data
from ..rigs.slow_disk import make_slow

ANSWER_SECONDS = 50.0


@pytest.fixture(autouse=True)
def emergency(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EmergencyStop:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "mine"))
    return EmergencyStop()


def requests_for(path: Path) -> list[dict[str, Any]]:
    where = {"path": str(path), "episode": 0}
    return [
        {"request": "describe", **where},
        {"request": "flags", **where},
        {"request": "thumbnail", **where, "pictures": 3},
        {"request": "signals", **where},
        {"request": "picture", **where, "row": 0, "camera": "images/front"},
        {"request": "save", **where, "name": "taken", "edits": {"drop": [1]}},
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_every_request_is_answered_and_the_honest_data_set_is_shown(
    kind: str, tmp_path: Path, emergency: EmergencyStop
) -> None:
    sets = tmp_path / "sets"
    hostile = make_hostile_data(sets, kind)
    recorded(sets / "honest")
    start = time.monotonic()
    found, *answers = listed(sets, *requests_for(hostile), PRESS, *requests_for(sets / "honest"))
    assert time.monotonic() - start < ANSWER_SECONDS
    assert emergency.pressed() == "the page of robo-rl web" and answers[6]["stopped"] == "data page"
    honest = next(each for each in found["sets"] if each["name"] == "honest")
    assert honest["steps"] == 24 and answers[7]["steps"] == [7, 12, 5]
    texts = json.dumps([each for each in (found, *answers) if not isinstance(each, bytes)])
    assert "SECRET" not in texts and len(texts) < 200_000 and "\\u001b" not in texts and "\\u202e" not in texts
    if kind == "texts":
        return  # strange, and nothing is wrong with it
    problems = [each.get("problem") for each in found["sets"] if each["name"] == kind]
    if kind.startswith("many_values"):
        assert "has too many values" in problems[0]
    damaged = [each for each in answers[:6] if isinstance(each, dict) and "error" in each]
    assert any(problems) or len(damaged) >= 4 or (kind == "damaged_rows" and damaged), answers[:6]
    assert isinstance(answers[9], bytes) and isinstance(answers[11], bytes)
    assert ("saved" in answers[5]) is False and "summary" in answers[12], (
        "a hostile set is not saved, the honest one is"
    )


def test_links_to_data_sets_are_not_followed(tmp_path: Path) -> None:
    recorded(tmp_path / "private")
    recorded(tmp_path / "sets" / "honest")
    (tmp_path / "sets" / "link").symlink_to(tmp_path / "private")
    (tmp_path / "sets" / "root").symlink_to("/")
    (found,) = listed(tmp_path / "sets")
    assert [each["name"] for each in found["sets"]] == ["honest"]
    (note,) = found["notes"]
    assert note.startswith(f"links are not followed: {tmp_path}/sets/link and 1 more; name what they lead to")
    (named,) = listed(tmp_path / "sets" / "link")
    assert [each["name"] for each in named["sets"]] == ["link"], "the operator named it"


def test_a_link_with_the_name_of_a_new_data_set_is_not_written_through(tmp_path: Path) -> None:
    recorded(tmp_path / "sets" / "mine")
    (tmp_path / "sets" / "new").symlink_to(tmp_path / "nowhere")
    save = {"path": str(tmp_path / "sets" / "mine"), "name": "new", "edits": {"drop": [1]}}
    _, command, saved = listed(tmp_path / "sets", {"request": "command", **save}, {"request": "save", **save})
    assert "exists already" in command["problem"] and "exists already" in saved["error"]
    assert not (tmp_path / "nowhere").exists()


def test_many_folders_and_files_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded(tmp_path / "sets" / "mine")
    monkeypatch.setattr(watched_data, "MOST_FILES", 10)
    (found,) = listed(tmp_path / "sets")
    assert "more than 10 files" in found["sets"][0]["problem"]
    for number in range(20):
        (tmp_path / "sets" / f"a{number}").mkdir()
    monkeypatch.setattr(watched_data, "MOST_FOLDERS", 10)
    (found,) = listed(tmp_path / "sets")
    assert found["sets"] == [] and "more than 10 folders" in found["notes"][0]


def test_a_data_set_that_never_answers_hides_no_other_and_delays_no_stop(
    tmp_path: Path, emergency: EmergencyStop, monkeypatch: pytest.MonkeyPatch
) -> None:
    sets = tmp_path / "sets"
    for name in ("honest", "slow"):
        recorded(sets / name)
    page, threads = DataPage([str(sets)]), threading.active_count()
    answers_to(page, {"request": "list"})
    page._readers = Readers(1.0, TURNS)
    over = make_slow(monkeypatch, "slow", "lstat", "scandir")
    slow, honest = ({"request": "describe", "path": str(sets / name)} for name in ("slow", "honest"))

    class Impatient(AskingPage):
        async def __aiter__(self) -> Any:
            for number in range(8):
                yield json.dumps({"number": number, **slow})
            yield json.dumps(PRESS)
            while not emergency.pressed():
                await asyncio.sleep(0.01)
            assert not any("error" in each for each in self.answers), "the stop does not wait for the others"
            while len(self.answers) < 9:
                await asyncio.sleep(0.01)

    visit = Impatient()
    try:
        asyncio.run(page.serve(visit))
        assert sum("no answer of its file system" in each.get("error", "") for each in visit.answers) == 8
        page._readers._seconds = ANSWER_SECONDS
        assert answers_to(page, honest)[0]["steps"] == [7, 12, 5]
        assert threading.active_count() < threads + 20
    finally:
        over.set()


@pytest.mark.parametrize(
    "question", [{"request": "list"}, {"request": "describe", "path": "none"}, {}, {"request": "?"}]
)
def test_a_page_that_floods_and_receives_nothing_can_press_the_stop(
    question: dict[str, Any], tmp_path: Path, emergency: EmergencyStop, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded(tmp_path / "sets" / "honest")
    monkeypatch.setattr(page_requests, "MOST_REQUESTS", 5)

    class Deaf(AskingPage):
        async def send(self, message: str | bytes) -> None:
            await asyncio.Event().wait()

        async def __aiter__(self) -> Any:
            for number in range(50):
                yield json.dumps({"number": number, **question})
            yield json.dumps(PRESS)
            async with asyncio.timeout(ANSWER_SECONDS):
                while not emergency.pressed():
                    await asyncio.sleep(0.01)

    asyncio.run(DataPage([str(tmp_path / "sets")]).serve(Deaf()))
    assert emergency.pressed() == "the page of robo-rl web"


def test_a_page_that_asks_without_end_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded(tmp_path / "sets" / "honest")
    monkeypatch.setattr(page_requests, "MOST_REQUESTS", 5)

    class Flooding(AskingPage):
        async def __aiter__(self) -> Any:
            for number in range(50):
                yield json.dumps({"number": number, "request": "list"})
            while len(self.answers) < 10:
                await asyncio.sleep(0.01)

    visit = Flooding()
    asyncio.run(DataPage([str(tmp_path / "sets")]).serve(visit))
    refused = sum(each.get("error") == "too many requests at a time" for each in visit.answers)
    assert refused >= 5 and len(visit.answers) == 10, "those beyond twice the limit have no answer"
