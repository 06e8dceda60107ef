"""The walk of a student with a laptop, as README shows it: train, watch, stop, resume, look at data, and evaluate."""

import re
import shlex
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("websockets")

from ..rigs.browser import open_browser, wait_until
from ..rigs.command_line import SMALL_AGENT
from ..rigs.guide import command
from ..rigs.page_checks import SIZES, checked, resize
from ..rigs.videos import read_video
from ..rigs.walk import Newcomer

PAGE = "../../README.md"
COMMANDS, LINES = 4, 0
"""Most commands, and lines of the student's own, from the installed package to an evaluated policy."""
PHONE, LAPTOP = SIZES[2], SIZES[4]
SHORT = [
    *SMALL_AGENT,
    "demonstrations.episodes=2",
    "run.env_steps=100000",
    "run.evaluation_interval=50",
    "run.evaluation_episodes=1",
    "run.final_evaluation_episodes=1",
    "run.video_episodes=0",
    "runtime.threads=1",
    "task.max_episode_steps=30",
    "task.observation.picture_width=160",
    "task.observation.picture_height=120",
]
"""Options for a training of seconds, which the student ends."""


@pytest.fixture
def student(tmp_path: Path) -> Iterator[Newcomer]:
    student = Newcomer(tmp_path)
    yield student
    student.leave()


class Page:
    """The page of ``robo-rl web`` in a browser, as a person uses it."""

    def __init__(self, browser: Any, address: str, folder: Path) -> None:
        self._browser, self._folder = browser, folder
        resize(browser, *LAPTOP)
        browser.get(address)

    def find(self, selector: str) -> list[Any]:
        found: list[Any] = self._browser.find_elements("css selector", selector)
        return found

    def read(self, selector: str) -> str:
        return str(self._browser.find_element("css selector", selector).text)

    def press(self, selector: str) -> None:
        (button,) = wait_until(lambda: self.find(f"{selector}:not(:disabled)"))
        self._browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", button)
        button.click()

    def keep(self, name: str) -> None:
        """Check the page on a laptop and a phone, and keep pictures."""
        for size in (PHONE, LAPTOP):
            checked(self._browser, size, f"student_{name}", self._folder)

    def opened(self, selector: str) -> str:
        """Return the text of the page that a link opens in another tab, which is closed again."""
        (page,) = self._browser.window_handles
        self.press(selector)
        wait_until(lambda: len(self._browser.window_handles) == 2)
        self._browser.switch_to.window(next(each for each in self._browser.window_handles if each != page))
        text = str(wait_until(lambda: self.read("body")))
        self._browser.close()
        self._browser.switch_to.window(page)
        return text

    def points(self) -> int:
        """Return the number of evaluations that the curve of the only run shows."""
        drawn = [line.get_attribute("points") for line in self.find("#gallery .run polyline")]
        return len(drawn[0].split()) if drawn and drawn[0] else 0


def stop_and_resume(student: Newcomer, page: Page) -> Path:
    """Train until the curve grows, stop by Ctrl-C, resume as the terminal says, and end on the page; return the run."""
    training = student.type(command(PAGE, "robo-rl train task=open_door"), *SHORT)
    wait_until(lambda: page.points() >= 3 or training.process.returncode is not None)
    assert training.process.returncode is None, training.text
    (run,) = (student.folder / "runs").iterdir()
    assert f"runs/{run.name}" in training.text, "the terminal says where the results are"
    assert page.read("#state") in ("training", "evaluating")
    page.keep("live")
    training.process.send_signal(signal.SIGINT)
    assert training.wait() == 128 + signal.SIGINT
    hint = re.search(r"Resume with: (robo-rl .*)", training.text)
    assert hint, training.text
    assert shlex.split(hint[1])[:2] == command(PAGE, "robo-rl train resume=")[:2]
    wait_until(lambda: page.read("#state") == "interrupted")

    resumed = student.type(shlex.split(hint[1]))
    wait_until(lambda: page.read("#state") == "training" or resumed.process.returncode is not None)
    wait_until(lambda: "steps" in resumed.text or resumed.process.returncode is not None)
    assert resumed.process.returncode is None, resumed.text
    page.press("[data-command=stop]")
    page.press("[data-command=stop]")
    assert resumed.wait() == 0, resumed.text
    wait_until(lambda: page.read("#state") == "stopped")
    return run


def look(page: Page) -> None:
    """Look at the result of the run, at its report, and at its demonstrations."""
    wait_until(lambda: page.find("#curves .u-legend"))
    assert "success of evaluations" in page.read("#curves")
    wait_until(lambda: "of 1 episode" in page.read("#result"))
    page.keep("home")
    report = page.opened("#report")
    assert "open_door" in report and "success" in report
    page.press("#sets-section .tile")
    wait_until(lambda: len(page.find("#episodes .episode")) == 2)
    page.press("#episodes .episode:first-child .tile")
    wait_until(lambda: page.find("#signals canvas"))
    page.keep("data")


def test_a_student_trains_stops_resumes_looks_and_evaluates(
    student: Newcomer, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = student.folder
    web = student.type(command(PAGE, "robo-rl web"), "web.address=127.0.0.1:0")
    address = wait_until(lambda: re.search(r"Open (\S+)", web.text))[1]
    with open_browser(folder / "profile") as browser:
        page = Page(browser, address, folder)
        wait_until(lambda: "robo-rl train" in page.read("#first"))
        run = stop_and_resume(student, page)
        look(page)
        severe = [entry["message"] for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
        assert all("report.html" in message and "sandboxed" in message for message in severe), severe
    words = [word.replace("runs/...", f"runs/{run.name}") for word in command(PAGE, "robo-rl eval run=")]
    evaluation = student.type(words, "episodes=1")
    assert evaluation.wait() == 0 and "policy of step" in evaluation.text, evaluation.text
    assert sum(1 for _ in read_video(folder / "policy.mp4")) > 0
    lines = sum(len(path.read_text().splitlines()) for path in folder.glob("*.*") if path.suffix in (".py", ".yaml"))
    student.report("student", lines, capsys)
    assert len(student.commands) <= COMMANDS and lines <= LINES
