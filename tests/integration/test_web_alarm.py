"""The alarm of the page of runs, in Chromium."""

import dataclasses
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("websockets")

from robo_rl.core.emergency import default_file, file_of
from robo_rl.core.latch import Latch
from robo_rl.telemetry import LiveRun, LiveStatus

from ..rigs.browser import before_pages, wait_until
from ..rigs.web_page import STATUS, ServedDashboard, open_page

WATCHED = """
window.tones = 0;
window.vibrations = [];
window.notes = [];
const start = OscillatorNode.prototype.start;
OscillatorNode.prototype.start = function (...times) { window.tones += 1; return start.apply(this, times); };
navigator.vibrate = (pattern) => window.vibrations.push(pattern);
window.Notification = class {
  static permission = "granted";
  constructor(title, { body }) { window.notes.push(body); }
};
"""
CONNECTED = dataclasses.replace(
    STATUS, robots=tuple(dataclasses.replace(robot, connected=True) for robot in STATUS.robots)
)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[LiveRun]:
    """A run that goes on, whose robots are connected."""
    folder = tmp_path / "runs" / "2026-01-01_pick_cube_rlpd_0"
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text(
        "task: {name: pick_cube}\nagent: {name: rlpd}\nseed: 0\nrun: {env_steps: 6000}\n"
    )
    (folder / "metrics.jsonl").write_text(json.dumps({"step": 1, "wall_seconds": 0.1, "kind": "train"}) + "\n")
    with LiveRun(folder) as run:
        run.report(CONNECTED)
        yield run


@pytest.fixture
def page(browser: Any, run: LiveRun, tmp_path: Path) -> Iterator[tuple[Any, ServedDashboard]]:
    """The page of the run, and its server."""
    served = ServedDashboard(tmp_path / "runs", tmp_path)
    served.start()
    try:
        with before_pages(browser, WATCHED):
            open_page(browser, served)
            wait_until(lambda: displayed(browser, "#state") == "training")
            wait_until(lambda: displayed(browser, ".tile"))
            yield browser, served
    finally:
        served.stop()


def displayed(browser: Any, selector: str) -> str:
    """Return the text of an element, without hidden ones."""
    return " ".join(each.text for each in browser.find_elements("css selector", selector) if each.is_displayed())


def report(run: LiveRun, status: LiveStatus, is_seen: Callable[[], bool]) -> None:
    """Report a status, which is written twice a second at most, until the page has it."""
    wait_until(lambda: run.report(status) or is_seen())


def rung(browser: Any) -> tuple[int, list[str]]:
    """Return the number of tones, and the notifications."""
    tones, notes = browser.execute_script("return [tones, notes]")
    return int(tones), list(notes)


def test_a_robot_that_is_stopped_or_silent_rings_until_the_page_is_touched(
    page: tuple[Any, ServedDashboard], run: LiveRun
) -> None:
    browser, _ = page
    latch = Latch(file_of(default_file(), "left"))
    latch.press("before the alarm was switched on")
    wait_until(lambda: "before the alarm" in displayed(browser, "#held"))
    alarm = browser.find_element("css selector", "#alarm")
    assert rung(browser) == (0, []), "it is off"
    alarm.click()
    assert alarm.get_attribute("aria-pressed") == "true"
    assert rung(browser) == (1, []), "a person hears how loud it is"
    assert displayed(browser, "#alarm-box") == "", "this is known"

    Latch(file_of(default_file(), "right")).press("safety guard: the force is 41 N")
    text = wait_until(lambda: displayed(browser, "#alarm-text"))
    assert "robot right: safety guard: the force is 41 N" in text and "left" not in text
    wait_until(lambda: rung(browser)[0] >= 7)  # it repeats
    assert [note.partition(" (at ")[0] for note in rung(browser)[1]] == ["robot right: safety guard: the force is 41 N"]
    assert wait_until(lambda: browser.title.startswith("(!) "))
    assert browser.execute_script("return vibrations.length") >= 2

    press_pause = browser.find_element("css selector", "[data-command=pause]")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", press_pause)
    press_pause.click()
    assert [command.name for command in wait_until(run.take_commands)] == ["pause"], "the first press counts"
    assert browser.execute_script("return vibrations.at(-1)") == 0
    assert "41 N" in displayed(browser, "#alarm-text"), "the reason can still be read"
    browser.find_element("css selector", "#alarm-close").click()
    assert displayed(browser, "#alarm-box") == "" and not browser.title.startswith("(!) ")

    report(run, STATUS, lambda: "right: silent" in displayed(browser, "#alarm-text"))
    alarm.click()
    assert alarm.get_attribute("aria-pressed") == "false" and displayed(browser, "#alarm-box") == ""
    tones, _ = rung(browser)
    report(run, CONNECTED, lambda: "silent" not in displayed(browser, "#robots"))
    report(run, STATUS, lambda: "silent" in displayed(browser, "#robots"))
    assert rung(browser)[0] == tones


def test_stops_ends_and_a_lost_connection_ring(page: tuple[Any, ServedDashboard], run: LiveRun) -> None:
    browser, served = page
    browser.find_element("css selector", "#alarm").click()
    # Of a run with its own file of stops, which is not among what holds all robots.
    stopped = dataclasses.replace(CONNECTED, state="stopped")
    report(run, stopped, lambda: "2026-01-01_pick_cube_rlpd_0: stopped" in displayed(browser, "#alarm-text"))
    browser.find_element("css selector", "#alarm-close").click()
    run.close()
    assert "2026-01-01_pick_cube_rlpd_0: unfinished" in wait_until(lambda: displayed(browser, "#alarm-text"))
    served.stop()
    try:
        wait_until(lambda: "the connection is lost" in displayed(browser, "#alarm-text"))
    finally:
        served.start()
