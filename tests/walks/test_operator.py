"""The walk of an operator with a phone: finds a live run, drives, stops, recovers, answers and labels on pages."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("websockets")
pytest.importorskip("segno", reason="the extra 'web' is not installed")

from robo_rl.replay import EpisodeStore
from robo_rl.rewards.asking.endpoint import Endpoint, EndpointConfig
from robo_rl.rewards.asking.oracles import ComparingOracle

from ..rigs.browser import PATIENCE_SECONDS, open_browser, wait_until
from ..rigs.command_line import SMALL_AGENT
from ..rigs.data_page import recorded
from ..rigs.page_checks import SIZES, checked, resize
from ..rigs.run_folder import records
from ..rigs.walk import Newcomer, Terminal

COMMANDS, LINES, TOUCHES = 3, 0, 16
"""Most commands of whoever starts the training, lines of the operator's own, and touches of the walk."""
PHONES = SIZES[:4]
PHONE = SIZES[2]
TRAIN = ["robo-rl", "train", "task=reach", "teleop.device=browser", "safety.emergency_stop.simulation=true"]
WEB = ["robo-rl", "web"]
ANSWER = ["robo-rl", "reward", "answer", "answer.device=browser"]
LOCAL = "web.address=127.0.0.1:0"
SHORT = [
    *SMALL_AGENT,
    "demonstrations.episodes=0",
    "run.env_steps=100000",
    "run.evaluation_interval=0",
    "run.final_evaluation_episodes=1",
    "run.video_episodes=0",
    "runtime.threads=1",
    "teleop.browser.timeout=20",
    "task.max_episode_steps=200",
    "task.observation.picture_width=320",
    "task.observation.picture_height=240",
]
"""Options for a training that takes little of the machine, and pages that wait for it."""
_BOX = "const box = arguments[0].getBoundingClientRect(); return box.width && box.toJSON()"


class Thumb:
    """A thumb on the page of a phone, whose touches are counted.

    Args:
        browser: the browser, whose screen becomes that of a phone.
        folder: for pictures of the pages.
    """

    def __init__(self, browser: Any, folder: Path) -> None:
        self.touches = 0
        self.browser, self._folder = browser, folder
        resize(browser, *PHONE)
        browser.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": True, "maxTouchPoints": 1})

    def read(self, selector: str) -> str:
        return str(self.browser.find_element("css selector", selector).text)

    def links(self) -> list[str]:
        """Return the pages of other commands, which the page of runs links to."""
        return [link.text for link in self.browser.find_elements("css selector", "#pages a")]

    def keep(self, name: str, fits: bool = False) -> None:
        """Check the page on the screens of phones, and keep pictures; ``fits``: nothing needs to be scrolled to."""
        for size in PHONES:
            layout = checked(self.browser, size, f"operator_{name}", self._folder)
            assert not fits or layout["height"] <= size[1], f"{name} is higher than {size}"
        resize(self.browser, *PHONE)

    def press(self, selector: str) -> None:
        """Touch a control near its upper edge, after it has been scrolled into view."""
        element = wait_until(lambda: self.browser.find_elements("css selector", f"{selector}:not(:disabled)"))[0]
        self.browser.execute_script("arguments[0].scrollIntoView({block: 'nearest'})", element)
        box = wait_until(lambda: self.browser.execute_script(_BOX, element))
        point = {"x": box["x"] + box["width"] / 2, "y": box["y"] + 4}
        self._touch("touchStart", [point])
        self.touches += 1

    def lift(self) -> None:
        self._touch("touchEnd", [])

    def tap(self, selector: str) -> None:
        self.press(selector)
        self.lift()

    def _touch(self, kind: str, points: list[dict[str, float]]) -> None:
        self.browser.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})


def printed(terminal: Terminal, pattern: str) -> str:
    """Wait until a command has printed a pattern; return its first group."""
    found = wait_until(lambda: re.search(pattern, terminal.text) or terminal.process.returncode is not None)
    assert isinstance(found, re.Match), terminal.text
    return str(found[1])


@pytest.fixture
def operator(tmp_path: Path) -> Iterator[Newcomer]:
    operator = Newcomer(tmp_path)
    yield operator
    operator.leave()


def drive(thumb: Thumb, run: Path) -> None:
    """Take over by a pad, and end the episode by a mark. (In simulation, the task itself judges it.)"""
    wait_until(lambda: "the policy has control" in thumb.read("#lines"))
    thumb.keep("drive", fits=True)
    thumb.press("[data-pad=x-y]")
    wait_until(lambda: "a person has control" in thumb.read("#lines"))
    thumb.lift()
    wait_until(lambda: "the policy has control" in thumb.read("#lines"))
    ended = len(records(run, "episode"))
    thumb.tap("[data-tap=success]")
    wait_until(lambda: len(records(run, "episode")) > ended)
    assert any(episode["interventions"] for episode in records(run, "episode"))


def stop_and_resume(thumb: Thumb) -> None:
    """Press the emergency stop, read who stopped the robot, release it, and see it go on."""
    thumb.tap("#emergency")
    wait_until(lambda: "robots" in thumb.read("#holds"))
    wait_until(lambda: "stopped: emergency stop" in thumb.read("#lines"))
    holds = thumb.read("#holds")
    assert re.search(r"all robots: a person, by the browser of the training \(at [\d:]+\)", holds), holds
    thumb.keep("stopped", fits=True)
    thumb.tap("#rearm")
    wait_until(lambda: "robots" in thumb.read("#confirmed-holds"))
    thumb.keep("rearm", fits=True)
    thumb.tap("#clear")
    wait_until(lambda: not thumb.read("#held"))
    wait_until(lambda: "the policy has control" in thumb.read("#lines"))


def answer(thumb: Thumb, address: str) -> None:
    """Answer which of two pictures is better."""
    endpoint = Endpoint(EndpointConfig(url=address, model="person", retries=0, timeout_seconds=PATIENCE_SECONDS))
    oracle = ComparingOracle(endpoint, "images/front", "the door is open", analysis=False)
    dark, bright = (np.full((90, 120, 3), value, np.uint8) for value in (60, 200))
    with ThreadPoolExecutor(1) as asking:
        given = asking.submit(oracle._question, (dark, bright))
        wait_until(lambda: "the door is open" in thumb.read("#parts"))
        thumb.keep("answer")
        thumb.tap("#choices [data-answer='1']")
        assert oracle._read(given.result(PATIENCE_SECONDS)) == 1.0


def label(thumb: Thumb, folder: Path) -> None:
    """Correct the success of a recorded episode, and save the result as a new data set."""
    thumb.tap("#sets .tile[title$=mine]")
    thumb.tap("#episodes .episode:nth-child(2) .tile")
    wait_until(lambda: thumb.browser.find_elements("css selector", "#signals canvas"))
    thumb.tap("[data-edit=failure]")
    wait_until(lambda: thumb.browser.find_elements("css selector", "#edits li"))
    thumb.keep("label")
    thumb.tap("#save-button")
    wait_until(lambda: "Saved" in thumb.read("#saved") or "saved" in thumb.read("#saved"))
    (saved,) = {*(folder / "datasets").iterdir()} - {folder / "datasets" / "mine"}
    with EpisodeStore.open(saved) as store:
        assert store.records[1].success is False


def test_an_operator_finds_drives_stops_resumes_answers_and_labels(
    operator: Newcomer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded(tmp_path / "datasets" / "mine")
    run = tmp_path / "runs" / "live"
    training = operator.type(TRAIN, LOCAL, *SHORT, f"run.dir={run}")
    web = operator.type(WEB, LOCAL)
    questions = operator.type(ANSWER, LOCAL, "answer.port=0")
    with open_browser(tmp_path / "profile") as browser:
        thumb = Thumb(browser, tmp_path)
        home = printed(web, r"Open (\S+)")
        printed(training, r"(Drive at)")
        browser.get(home)
        wait_until(lambda: browser.find_elements("css selector", "#state") and thumb.read("#state") == "training")
        assert "reach" in thumb.read("#title")
        wait_until(lambda: thumb.links() == ["Answer questions", "Drive reach"])
        thumb.keep("live")
        thumb.tap("#pages a:last-child")
        drive(thumb, run)
        stop_and_resume(thumb)
        thumb.tap("[data-tap=stop]")
        assert training.wait() == 130 and "Resume with" in training.text, training.text
        browser.get(home)
        wait_until(lambda: thumb.links() == ["Answer questions"])
        thumb.tap("#pages a")
        answer(thumb, printed(questions, r"answering at ([^;]+);"))
        browser.get(home.replace("/#", "/data.html#"))
        label(thumb, tmp_path)
        severe = [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
        assert all("navigator.vibrate" in entry["message"] for entry in severe), severe
    operator.report("operator", 0, capsys)
    assert len(operator.commands) <= COMMANDS and thumb.touches <= TOUCHES
