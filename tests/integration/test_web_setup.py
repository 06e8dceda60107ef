"""The page of robo-rl setup in Chromium: checks, pictures, announcements, questions and the emergency stop."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("websockets")

from robo_rl.core import EmergencyStop
from robo_rl.operators.checks import FAIL, Check
from robo_rl.operators.rearming import find_stops_of
from robo_rl.operators.setup_page import SetupPage
from robo_rl.operators.stop_button import StopButton

from ..rigs.browser import PATIENCE_SECONDS, wait_until
from ..rigs.command_line import Forked, finish
from ..rigs.page_checks import assert_readable, checked, resize
from ..rigs.robot_rig import composed
from ..rigs.set_up import AXES, CHECKS, scene, set_up_page, show_checks
from .test_web_drive_stop import read, tap

SIZES = [(390, 844), (1280, 800)]
SHORT = ("listen=0.5", "seconds=0.5", "exercise=0", "resets=1", "robot.real_time_priority=0", "robot.overruns=1000")
SERVOS = ("task=reach_so101", "robot=so101", "robot.port=virtual", "robot.max_age=5", "robot.answer_timeout=0.1")


@pytest.fixture
def page() -> Iterator[SetupPage]:
    """The page of a bring-up of ``robot=virtual``."""
    with set_up_page(StopButton(partial(find_stops_of, composed()))) as page:
        yield page


def opened(browser: Any, link: str, size: tuple[int, int]) -> None:
    browser.get("about:blank")
    resize(browser, *size)
    browser.get(link)
    wait_until(lambda: read(browser, "#connection") == "connected")


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_a_bring_up_is_followed_and_answered(
    browser: Any, page: SetupPage, size: tuple[int, int], tmp_path: Path
) -> None:
    opened(browser, page.link, size)
    with ThreadPoolExecutor(1) as command:
        confirmed = command.submit(page.confirm_start)
        wait_until(lambda: "Start" in read(browser, "#reply"))
        checked(browser, size, "setup_start", tmp_path)
        assert_readable(browser)
        assert not confirmed.done()
        tap(browser, "#reply")
        assert confirmed.result(PATIENCE_SECONDS)
        wait_until(lambda: not browser.find_element("css selector", "#request").is_displayed())

        show_checks(page)
        count = lambda: browser.execute_script(  # noqa: E731
            "return [...document.querySelectorAll('#cameras img')].filter((each) => each.naturalWidth === 160).length"
        )
        wait_until(lambda: count() == 2)
        assert "(+z)" in read(browser, "#announcement")
        assert read(browser, "#count") == "3 made, 1 with a warning"
        checked(browser, size, "setup_checks", tmp_path)
        assert_readable(browser)

        before = browser.find_element("css selector", "#cameras img").get_attribute("src")
        page.show({"front": scene(90)})
        wait_until(lambda: browser.find_element("css selector", "#cameras img").get_attribute("src") != before)

        differing = command.submit(page.differing_axes, AXES)
        wait_until(lambda: browser.find_elements("css selector", "[data-choice=z]"))
        assert read(browser, "#reply") == "All moved as announced"
        assert "forwards (+y)" in read(browser, "[data-choice=y]")
        for name in ("y", "z", "x", "x"):  # the second tap takes the first back
            tap(browser, f"[data-choice={name}]")
        checked(browser, size, "setup_directions", tmp_path)
        assert_readable(browser)
        tap(browser, "#reply")
        assert differing.result(PATIENCE_SECONDS) == "y, z"

        page.add(Check("directions", FAIL, "moved differently: y, z"))
        ended = command.submit(page.end, "4 checks, 1 failed, 1 with a warning", True)
        wait_until(lambda: read(browser, "#reply") == "Done")
        tap(browser, "#reply")
        ended.result(PATIENCE_SECONDS)
        page.close()
    wait_until(lambda: read(browser, "#connection") == "ended")
    assert not browser.find_element("css selector", "#emergency").is_displayed()
    assert len(browser.find_elements("css selector", ".check")) == 4
    assert "stale" not in browser.find_element("css selector", "body").get_attribute("class")
    assert browser.execute_script("return document.documentElement.scrollWidth") <= size[0]
    assert_readable(browser)


def test_a_page_that_comes_later_receives_everything(browser: Any, page: SetupPage) -> None:
    for check in CHECKS:
        page.add(check)
    page.show({"front": scene(170)})
    for _ in range(2):  # also again
        opened(browser, page.link, SIZES[0])
        wait_until(lambda: len(browser.find_elements("css selector", ".check")) == len(CHECKS))
        wait_until(lambda: browser.find_elements("css selector", "#cameras img"))


def test_the_emergency_stop_stops_and_is_released(browser: Any, page: SetupPage, tmp_path: Path) -> None:
    stop = EmergencyStop(robot="virtual")
    opened(browser, page.link, SIZES[0])
    tap(browser, "#emergency")
    wait_until(lambda: stop.pressed() == "the page of robo-rl setup")
    wait_until(lambda: "the page of robo-rl setup" in read(browser, "#holds"))
    assert not browser.find_element("css selector", "#unconfirmed").is_displayed()
    checked(browser, SIZES[0], "setup_stopped", tmp_path)
    tap(browser, "#rearm")
    tap(browser, "#clear")
    wait_until(lambda: stop.pressed() is None)
    wait_until(lambda: not browser.find_element("css selector", "#held").is_displayed())


def test_the_command_asks_on_its_page(browser: Any, tmp_path: Path) -> None:
    pytest.importorskip("serial", reason="the extra 'servos' is not installed")
    folder = tmp_path / "setup"
    words = ("device=browser", "web.address=127.0.0.1:0", f"output={folder}")
    process = Forked("setup", *SERVOS, *SHORT, *words)
    link = next(line.split()[1] for line in process.stdout if line.startswith("Open http"))
    opened(browser, link, SIZES[1])
    wait_until(lambda: "Start" in read(browser, "#reply"))
    assert not folder.exists(), "nothing moves before the operator has confirmed the start"
    tap(browser, "#reply")
    wait_until(lambda: browser.find_elements("css selector", "[data-choice=y]"))
    tap(browser, "[data-choice=y]")
    tap(browser, "#reply")
    wait_until(lambda: read(browser, "#reply") == "Done")
    tap(browser, "#reply")
    finish(process, 1)
    wait_until(lambda: read(browser, "#connection") == "ended")
    checks = json.loads((folder / "checks.json").read_text())["checks"]
    assert (checks[-1]["outcome"], checks[-1]["text"]) == ("fail", "moved differently: y")
    displayed = [each.text for each in browser.find_elements("css selector", ".check b")]
    assert displayed == [check["name"] for check in checks]
