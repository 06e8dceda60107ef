"""Every page on screens from a small phone to a large monitor: controls are reached and hit, texts are read."""

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("websockets")

from robo_rl.core import EmergencyStop
from robo_rl.telemetry import LiveRun
from robo_rl.web import WebConfig
from robo_rl.web.person import PersonPage

from ..rigs.browser import wait_until
from ..rigs.page_checks import MOST_BYTES, SIZES, assert_readable, checked, resize
from ..rigs.pages import ARM, Opener, make_ended_run, served_pages
from ..rigs.web_page import STATUS, ServedDashboard, open_page

CONTROLS = {
    "live run": {"Reset", "Success", "Failure", "Pause", "Emergency stop", "Compare", "Start a run", "Drive pick_cube"},
    "ended run": {"Open the report", "Copy", "Alarm", "VIDEO", "Runs", "Data"},
    "start form": {"Check", "Start the run", "Output", "seed", "options"},
    "data": {"Play", "Begin here", "Delete piece", "Save as a new data s", "Emergency stop", "Remove"},
    "wrong token": {"token", "Connect", "Emergency stop"},
    "no runs": {"Data", "Emergency stop", "Start a run", "Copy", "A run or a sweep"},
    "drive": {"x-y", "z-yaw", "pitch-roll", "Success", "Emergency stop", "Gripper"},
    "answer by choice": {"Picture 1", "Picture 2", "Neither"},
    "answer in words": {"Answer", "text"},
    "play": {"3D scene", "Pause Space", "Push P"},
    "set-up": {"All moved as announc", "Emergency stop"},
    "report": {"VIDEO", "ended"},
}
"""Names of some controls of each page."""


COCKPIT = """
const image = document.getElementById("camera"), box = image.getBoundingClientRect();
const scale = Math.min(box.width / image.naturalWidth, box.height / image.naturalHeight);
const [across, down] = [image.naturalWidth * scale, image.naturalHeight * scale];
const isAtTop = getComputedStyle(image).objectPosition.endsWith(" 0%");
const [left, top] = [box.left + (box.width - across) / 2, box.top + (isAtTop ? 0 : (box.height - down) / 2)];
const all = [...document.querySelectorAll("#task, #connection, #lines, button")];
const texts = all.filter((each) => each.checkVisibility());
return {
  picture: {left, top, right: left + across, bottom: top + down},
  alphas: [...document.querySelectorAll(".pad")].map((pad) =>
    Number(getComputedStyle(pad).backgroundColor.match(/([\\d.]+)\\)$/)[1])),
  cut: texts.filter((each) => each.scrollWidth > each.clientWidth + 1 || each.scrollHeight > each.clientHeight + 1)
    .map((each) => each.textContent),
};
"""
"""The place of the camera's picture, the opacity of the pads, and texts that are cut off."""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Opener]]:
    folder = tmp_path_factory.mktemp("pages")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        with served_pages(folder) as pages:
            yield pages


@pytest.mark.parametrize("sizes", [SIZES[:4], SIZES[4:]], ids=["phone", "computer"])
@pytest.mark.parametrize("name", CONTROLS)
def test_every_control_is_reached_and_every_text_is_read(
    browser: Any, pages: dict[str, Opener], name: str, sizes: list[tuple[int, int]], tmp_path: Path
) -> None:
    resize(browser, *sizes[0])
    pages[name](browser)
    for size in sizes:
        layout = checked(browser, size, name.replace(" ", "_"), tmp_path)
        assert CONTROLS[name] <= {control["name"] for control in layout["controls"]}
    assert not [line for line in browser.get_log("browser") if line["level"] == "SEVERE"]


def test_no_page_is_left_out(pages: dict[str, Opener]) -> None:
    assert set(CONTROLS) == set(pages)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("<div style='width: 600px'>wide</div>", "horizontal scroll bar"),
        ("<button style='width: 60px; height: 40px'>low</button>", "'name': 'low'"),
        ("<a href='#' style='display: block'>not in a text</a>", "'name': 'not in a text'"),
        ("<i style='position: fixed; inset: 0'></i>", "'covered': '<i style"),
        ("<p style='color: #888'>faint</p>", "'faint'"),
        ("<p style='opacity: .5'>translucent</p>", "'translucent'"),
        ("<p style='color: color(srgb .6 .6 .6)'>in another notation</p>", "'in another notation'"),
        ("<input style='width: 90px; height: 50px; color: #999' value='pale'>", "'pale'"),
        (f"<p hidden>{'x' * MOST_BYTES}</p>", "bytes before pictures"),
    ],
    ids=lambda value: value[:24],
)
def test_faults_of_a_page_are_noticed(browser: Any, fault: str, message: str, tmp_path: Path) -> None:
    page = "<!doctype html><meta name=viewport content='width=device-width'><title>page</title>"
    text = "<p>See <a href='#'>a link</a> in a text.</p><button style='width: 60px; height: 50px'>Good</button>"
    for name, more in (("good", ""), ("bad", fault)):
        (tmp_path / f"{name}.html").write_text(f"{page}<body style='background: #fff; color: #000'>{text}{more}")
    browser.get((tmp_path / "good.html").as_uri())
    checked(browser, SIZES[2], "good", tmp_path)
    browser.get((tmp_path / "bad.html").as_uri())
    with pytest.raises(AssertionError, match=re.escape(message)):
        checked(browser, SIZES[2], "bad", tmp_path)


def overlap(one: dict[str, float], other: dict[str, float]) -> bool:
    """Return whether two boxes have more than their borders in common."""
    apart = (
        one["right"] <= other["left"] + 1
        or other["right"] <= one["left"] + 1
        or one["bottom"] <= other["top"] + 1
        or other["bottom"] <= one["top"] + 1
    )
    return not apart


def check_cockpit(layout: dict[str, Any], cockpit: dict[str, Any], size: tuple[int, int]) -> None:
    """Check the places of picture, pads and buttons of the page that drives a robot."""
    width, height = size
    controls = layout["controls"]
    assert layout["height"] <= height, "nothing needs to be scrolled to"
    for number, one in enumerate(controls):
        assert not [other for other in controls[number + 1 :] if overlap(one, other)], one
    pads = [control for control in controls if control["name"] in ("x-y", "z-yaw", "pitch-roll")]
    assert len(pads) == 3 and all(pad["bottom"] - pad["top"] >= 100 for pad in pads)
    assert all(alpha < 0.7 for alpha in cockpit["alphas"]), "what is behind a pad remains visible"
    picture = cockpit["picture"]
    across, down = picture["right"] - picture["left"], picture["bottom"] - picture["top"]
    assert down >= 0.7 * height if width > height else across == width, "the picture is as large as the screen allows"
    middle = {
        "left": picture["left"] + across / 3,
        "right": picture["right"] - across / 3,
        "top": picture["top"],
        "bottom": picture["top"] + 0.9 * down,
    }
    assert not [control for control in controls if overlap(control, middle)], "the middle of the picture is free"
    by_name = {control["name"]: control for control in controls}
    assert by_name["x-y"]["right"] < width / 2 < by_name["z-yaw"]["left"], "one for each thumb"
    marks = [by_name["Failure"], by_name["Success"]]
    assert all(mark["bottom"] >= max(control["bottom"] for control in controls) - 1 >= height - 10 for mark in marks)
    assert not cockpit["cut"], "texts are whole"


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_all_that_drives_a_robot_is_on_one_screen(browser: Any, size: tuple[int, int], tmp_path: Path) -> None:
    about = {"task": "pick_cube", "elements": ARM, "headings": {"view": 0.5}}
    page = PersonPage(WebConfig("127.0.0.1:0"), about, lambda _: None, emergency_stop=lambda: "")
    try:
        browser.get("about:blank")
        resize(browser, *size)
        browser.get(page.link)
        wait_until(lambda: browser.find_elements("css selector", "[data-pad=x-y]"))
        pictures = {"view": np.full((480, 640, 3), 120, np.uint8), "wrist": np.full((64, 64, 3), 90, np.uint8)}
        page.show(pictures, ["step 1 of 200", "you are driving"], closed=False)
        wait_until(lambda: browser.find_element("css selector", "#swap").is_displayed())
        wait_until(lambda: browser.execute_script("return document.getElementById('camera').naturalWidth") == 640)
        layout = checked(browser, size, "drive", tmp_path)
        check_cockpit(layout, browser.execute_script(COCKPIT), size)
        for state in ("connecting", "connection lost"):
            browser.execute_script("document.getElementById('connection').textContent = arguments[0]", state)
            assert not browser.execute_script(COCKPIT)["cut"], state
        if size == SIZES[2]:
            assert_readable(browser)
    finally:
        page.close()


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """The folder of a run."""
    run = tmp_path / "runs" / "2026-01-01_pick_cube_rlpd_0"
    make_ended_run(run)
    return run


@pytest.fixture
def served(run: Path, tmp_path: Path) -> Iterator[ServedDashboard]:
    served = ServedDashboard(run.parent, tmp_path)
    served.start()
    yield served
    served.stop()


def test_the_state_of_a_run_has_its_colour(browser: Any, served: ServedDashboard, run: Path) -> None:
    open_page(browser, served)
    state = wait_until(lambda: browser.find_element("css selector", "#state"))
    wait_until(lambda: (state.text, state.get_attribute("class")) == ("completed", "chip good"))
    with LiveRun(run) as live:
        for name, colour in (("training", "good"), ("evaluating", "waiting"), ("paused and stopped", "bad")):
            live.report(dataclasses.replace(STATUS, state=name))
            wait_until(lambda name=name: state.text == name)
            assert state.get_attribute("class") == f"chip {colour}"


@pytest.mark.parametrize("size", [SIZES[0], SIZES[2], SIZES[3], SIZES[4]], ids=str)
def test_a_stop_and_the_question_before_its_release_are_within_the_width(
    browser: Any, served: ServedDashboard, size: tuple[int, int], tmp_path: Path
) -> None:
    resize(browser, *size)
    EmergencyStop(robot="virtual").press("safety guard: /joint_states has been silent for 0.52 s")
    open_page(browser, served)
    wait_until(lambda: "virtual" in browser.find_element("css selector", "#held").text)
    assert "Rearm …" in {control["name"] for control in checked(browser, size, "stopped", tmp_path)["controls"]}
    browser.find_element("css selector", "#rearm").click()
    checked(browser, size, "rearm", tmp_path)
