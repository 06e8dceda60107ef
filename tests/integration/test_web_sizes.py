"""The pages on screens from a small phone to a large monitor: every control can be reached and hit with a finger."""

import dataclasses
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("websockets")

from robo_rl.telemetry import LiveRun
from robo_rl.web import WebConfig
from robo_rl.web.person import PersonPage

from ..rigs.browser import wait_until
from ..rigs.page_checks import assert_readable
from ..rigs.web_page import STATUS, ServedDashboard, open_page

SIZES = [(360, 560), (375, 667), (390, 844), (844, 390), (1280, 800), (2560, 1440)]
"""Widths and heights of what phones, a laptop and a monitor show of a page [pixels]."""

FINGERTIP = 44
"""Least width and height of a control [pixels]."""

ARM = ["x", "y", "z", "roll", "pitch", "yaw", "gripper"]

MEASURED = """
const page = document.documentElement;
const controls = [...document.querySelectorAll("button, select, input, .pad")].filter((each) => each.checkVisibility());
return {
  width: page.scrollWidth,
  height: page.scrollHeight,
  controls: controls.map((each) => {
    const box = each.getBoundingClientRect();
    const name = each.dataset.pad ?? each.textContent.trim().slice(0, 20);
    return {name, left: box.left, right: box.right, top: box.top + scrollY, bottom: box.bottom + scrollY};
  }),
};
"""
"""The size of the page, and the place of each visible control in it [pixels]."""


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
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ServedDashboard, Path]]:
    """A served run that has ended, and its folder."""
    folder = tmp_path_factory.mktemp("web")
    run = folder / "runs" / "2026-01-01_pick_cube_rlpd_0"
    run.mkdir(parents=True)
    settings = "task: {name: pick_cube}\nagent: {name: rlpd, pretrain_steps: 2000}\nseed: 0\nrun: {env_steps: 500}\n"
    (run / "config.yaml").write_text(f"{settings}safety: {{emergency_stop: {{file: {folder}/stop}}}}\n")
    lines = [
        {"kind": "evaluation", "step": step, "wall_seconds": step / 12, "success_rate": rate, "episodes": 50}
        | {"demonstrations_success_rate": 0.9}
        for step, rate in ((0, 0.62), (250, 0.8), (500, 0.98))
    ]
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    success = {"value": 0.98, "low": 0.93, "high": 0.99, "episodes": 100}
    summary = {"status": "completed", "env_steps": 500, "wall_seconds": 42.0, "success_rate": success}
    (run / "summary.json").write_text(json.dumps(summary))
    served = ServedDashboard(folder / "runs", folder)
    served.start()
    yield served, run
    served.stop()


def resize(browser: Any, width: int, height: int) -> None:
    screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 1000}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)


def checked(browser: Any, size: tuple[int, int], name: str, folder: Path) -> dict[str, Any]:
    """Check every control of the page in a window of ``size``, and keep a picture; return the measurements."""
    resize(browser, *size)
    layout: dict[str, Any] = browser.execute_script(MEASURED)
    pictures = Path(os.environ.get("ROBO_RL_SCREENSHOTS", folder))
    browser.save_screenshot(str(pictures / f"{name}_{size[0]}x{size[1]}.png"))
    assert layout["width"] <= size[0], "there is a horizontal scroll bar"
    assert layout["controls"]
    for control in layout["controls"]:
        assert control["left"] >= 0 and control["right"] <= size[0], control
        assert control["top"] >= 0 and control["bottom"] <= max(layout["height"], size[1]), control
        assert control["right"] - control["left"] >= FINGERTIP, control
        assert control["bottom"] - control["top"] >= FINGERTIP, control
    return layout


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


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_a_run_is_commanded_within_the_width(
    browser: Any, runs: tuple[ServedDashboard, Path], size: tuple[int, int], tmp_path: Path
) -> None:
    served, folder = runs
    resize(browser, *size)
    with LiveRun(folder) as live:
        live.report(STATUS)
        open_page(browser, served)
        wait_until(lambda: browser.find_elements("css selector", "[data-command=reset]:enabled"))
        names = [control["name"] for control in checked(browser, size, "runs", tmp_path)["controls"]]
        for state, colour in (("training", "good"), ("evaluating", "waiting"), ("paused and stopped", "bad")):
            live.report(dataclasses.replace(STATUS, state=state))
            wait_until(lambda state=state: browser.find_element("css selector", "#state").text == state)
            assert browser.find_element("css selector", "#state").get_attribute("class") == f"chip {colour}"
    assert {"Reset", "Success", "Failure", "Emergency stop"} <= set(names)


@pytest.mark.parametrize("size", [SIZES[0], SIZES[4]], ids=str)
def test_an_ended_run_shows_its_result(
    browser: Any, runs: tuple[ServedDashboard, Path], size: tuple[int, int], tmp_path: Path
) -> None:
    served, _ = runs
    resize(browser, *size)
    open_page(browser, served)
    wait_until(lambda: browser.find_elements("css selector", "#result dd"))
    checked(browser, size, "ended", tmp_path)
    displayed = {term.text: term.find_element("xpath", "following-sibling::dd").text
             for term in browser.find_elements("css selector", "#result dt")}  # fmt: skip
    assert displayed["success"] == "98 % of 100 episodes (95 % interval 93 to 99 %)"
    assert (displayed["cloning alone"], displayed["demonstrations"]) == ("62 %", "90 % successful")
    assert browser.find_element("css selector", "#state").get_attribute("class") == "chip good"
    assert not browser.find_element("css selector", "#robots-section").is_displayed()
