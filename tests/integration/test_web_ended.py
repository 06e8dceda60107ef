"""The page of an ended run in robo-rl web: figures, curves, videos, and a report whose scripts do not run."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("websockets")

from ..rigs.browser import wait_until
from ..rigs.page_checks import resize
from ..rigs.pages import VIDEO_SECONDS, make_ended_run
from ..rigs.web_page import ServedDashboard, open_page

HOSTILE = """<!doctype html><title>report</title><p id="text">as written</p>
<video src="videos/final.mp4"></video>
<img src="x" onerror="document.title = 'executed'">
<script>document.title = "executed"; opener.document.title = "executed";</script>"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that has ended, with videos before and after and of a failure."""
    folder = tmp_path_factory.mktemp("ended")
    run = folder / "runs" / "2026-01-01 pick's cube"
    make_ended_run(run)
    (run / "report.html").write_text(HOSTILE)
    return folder


def opened(browser: Any, served: ServedDashboard) -> None:
    open_page(browser, served)
    wait_until(lambda: browser.find_elements("css selector", "#videos video"))


def test_figures_lines_and_the_command_of_an_evaluation_are_shown(
    browser: Any, served: ServedDashboard, folder: Path
) -> None:
    resize(browser, 1280, 800)
    opened(browser, served)
    texts = [row.text.partition("\n")[::2] for row in browser.find_elements("css selector", "#result > div")]
    assert texts == [
        ("success", "98 % of 100 episodes (95 % interval 93 to 99 %)"),
        ("cloning alone", "62 %"),
        ("demonstrations", "90 % successful"),
        ("time to success", "2.5 s, 0.62 times the demonstrations' 4 s"),
        ("environment steps", "500"),
        ("robot time", "0.8 minutes"),
    ]
    keys = wait_until(
        lambda: [each.text for each in browser.find_elements("css selector", "#curves .key") if each.text]
    )
    assert [key.split("\n") for key in keys] == [
        ["demonstrations: 90 %", "cloning alone: 62 %"],
        ["demonstrations: 4", "cloning alone: 3.5"],
    ]
    run = folder / "runs" / "2026-01-01 pick's cube"
    command = browser.find_element("css selector", "#again").text
    assert (
        command
        == f"robo-rl eval 'run=\"{str(run).replace(chr(39), chr(39) + chr(34) + chr(39) + chr(34) + chr(39))}\"'"
    )
    browser.find_element("css selector", "#copy").click()
    wait_until(lambda: browser.find_element("css selector", "#copy").text in ("Copied", "Selected"))


def test_videos_play_in_the_page_but_not_by_themselves(browser: Any, served: ServedDashboard) -> None:
    resize(browser, 1280, 800)
    opened(browser, served)
    captions = [each.text for each in browser.find_elements("css selector", "#videos figcaption")]
    assert captions == ["before the first step", "at the end", "other", "failure, episode 2"]
    states = "return [...document.querySelectorAll('video')].map((each) => [each.paused, each.controls, each.autoplay])"
    assert browser.execute_script(states) == [[True, True, False]] * 4
    for number in range(4):
        play = "const video = document.querySelectorAll('video')[arguments[0]]; video.muted = true; return video.play()"
        browser.execute_script(play, number)
        state = "const video = document.querySelectorAll('video')[arguments[0]]; return [video.duration, video.error]"
        duration, error = browser.execute_script(state, number)
        assert duration == pytest.approx(VIDEO_SECONDS, abs=0.2) and error is None
    browser.execute_script("const video = document.querySelector('video'); video.pause(); video.currentTime = 1.5")
    place = "const video = document.querySelector('video'); return !video.seeking && video.currentTime"
    wait_until(lambda: browser.execute_script(place) == pytest.approx(1.5, abs=0.1))
    assert not [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]


def test_the_report_of_a_run_executes_nothing(browser: Any, served: ServedDashboard) -> None:
    resize(browser, 1280, 800)
    opened(browser, served)
    title = browser.title
    page = browser.current_window_handle
    browser.find_element("css selector", "#report").click()
    wait_until(lambda: len(browser.window_handles) == 2)
    try:
        browser.switch_to.window(next(each for each in browser.window_handles if each != page))
        wait_until(lambda: browser.title == "report")
        assert browser.find_element("css selector", "#text").text == "as written"
        assert browser.execute_script("return [origin, opener]") == ["null", None]
        loaded = "return document.querySelector('video').readyState"
        wait_until(lambda: browser.execute_script(loaded) > 0)
        assert browser.title == "report"
        browser.close()
    finally:
        browser.switch_to.window(page)
    assert browser.title == title
