"""The 3D scene of a run in Chromium: the arm stands where MuJoCo draws it, filters and force are named, touch zooms."""

import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cv2
import mujoco
import numpy as np
import pytest

pytest.importorskip("websockets")

from robo_rl.actor import SceneLimits, SceneView, jpeg
from robo_rl.core import Verdict
from robo_rl.sim import make_backend
from robo_rl.telemetry import LiveRun

from ..rigs.browser import before_pages, wait_until
from ..rigs.page_checks import checked, resize
from ..rigs.web_page import STATUS, ServedDashboard, open_page

NO_WEBGL = """
const get = HTMLCanvasElement.prototype.getContext;
HTMLCanvasElement.prototype.getContext = function (kind, ...more) {
  return kind === "webgl2" ? null : get.call(this, kind, ...more);
};
"""
LIMITS = SceneLimits((0.3, -0.3, 0.02), (0.7, 0.3, 0.6))


class LiveArm:
    """An arm of a run that moves, and is shown to pages as an actor shows it, until :meth:`end`."""

    def __init__(self, live: LiveRun) -> None:
        self.backend: Any = make_backend("pick_cube")
        self._live, self._observation = live, self.backend.reset(seed=0).observation
        self._view = SceneView(self.backend, LIMITS)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._show)
        self._thread.start()

    def _show(self) -> None:
        while not self._ended.wait(0.1):
            if self._live.watched:
                self._live.show("left", {"scene": jpeg(np.full((48, 64, 3), 90, np.uint8))})
                self._view.note(Verdict(changed=True, reasons=("workspace",)))
                self._live.show_scene("left", *self._view.take(self._observation, always=True))

    def end(self) -> None:
        self._ended.set()
        self._thread.join()
        self.backend.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def arm(tmp_path: Path) -> Iterator[LiveArm]:
    run = tmp_path / "runs" / "2026-01-01_pick_cube_rlpd_0"
    run.mkdir(parents=True)
    safety = f"safety: {{emergency_stop: {{file: {tmp_path}/stop}}}}"
    (run / "config.yaml").write_text(f"task: {{name: pick_cube}}\nagent: {{name: rlpd}}\nseed: 0\n{safety}\n")
    (run / "metrics.jsonl").write_text(json.dumps({"step": 1, "wall_seconds": 0.1, "kind": "train"}) + "\n")
    with LiveRun(run) as live:
        live.report(STATUS)
        arm = LiveArm(live)
        yield arm
        arm.end()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[ServedDashboard]:
    served = ServedDashboard(tmp_path / "runs", tmp_path)
    served.start()
    yield served
    served.stop()


def use_dark_colours(browser: Any) -> None:
    features = [{"name": "prefers-color-scheme", "value": "dark"}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


def switch(browser: Any) -> None:
    button = wait_until(
        lambda: [each for each in browser.find_elements("css selector", "#views") if each.is_displayed()]
    )
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", button[0])
    button[0].click()


def picture(browser: Any, name: str, folder: Path) -> Any:
    """Return what the scene shows (height, width, 3), and keep a picture of the page."""
    stage = wait_until(lambda: browser.find_elements("css selector", ".stage"))[0]
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", stage)
    browser.save_screenshot(str(Path(os.environ.get("ROBO_RL_SCREENSHOTS", folder)) / f"scene_{name}.png"))
    data = np.frombuffer(stage.screenshot_as_png, np.uint8)
    return cv2.cvtColor(cv2.imdecode(data, cv2.IMREAD_COLOR), cv2.COLOR_BGR2RGB)


def light_grey(image: Any) -> Any:
    """Return where an image is as bright and without colour as the links of the arm."""
    values = image.astype(int)
    return (values.min(axis=2) > 120) & (values.max(axis=2) - values.min(axis=2) < 25)


def links(arm: LiveArm, height: int, width: int) -> Any:
    """Return where MuJoCo draws the light links of the arm (height, width), seen from the camera of pictures."""
    model = arm.backend.model
    model.vis.global_.offwidth, model.vis.global_.offheight = width, height
    try:
        renderer = mujoco.Renderer(model, height, width)
    except Exception as error:
        pytest.skip(f"nothing can be rendered here: {error}")
    with renderer:
        renderer.enable_segmentation_rendering()
        renderer.update_scene(arm.backend.data, "view")
        numbers = renderer.render()[..., 0]
    is_light = np.array(
        [model.geom_bodyid[each] > 0 and model.geom_rgba[each][:3].min() > 0.7 for each in range(model.ngeom)] + [False]
    )
    return is_light[numbers]


def test_the_arm_stands_where_mujoco_draws_it(
    browser: Any, arm: LiveArm, served: ServedDashboard, tmp_path: Path
) -> None:
    resize(browser, 1280, 800)
    use_dark_colours(browser)
    open_page(browser, served)
    switch(browser)
    wait_until(lambda: light_grey(picture(browser, "1280x800_dark", tmp_path)).mean() > 0.01)
    image = picture(browser, "1280x800_dark", tmp_path)
    expected = links(arm, *image.shape[:2])
    assert expected.mean() > 0.02
    inside = cv2.erode(expected.astype(np.uint8), np.ones((5, 5))) > 0
    outside = cv2.dilate(expected.astype(np.uint8), np.ones((9, 9))) == 0
    found = light_grey(image)
    assert found[inside].mean() > 0.85 and found[outside].mean() < 0.03, "outside are the lines of the workspace"
    assert "changed by workspace" in browser.find_element("css selector", ".scene").text
    assert "force 1.4 N" in browser.find_element("css selector", ".scene").text
    checked(browser, (1280, 800), "scene", tmp_path)
    switch(browser)
    wait_until(lambda: browser.find_elements("css selector", "#cameras img"))
    assert not browser.find_element("css selector", "#scenes").is_displayed()
    assert not [line for line in browser.get_log("browser") if line["level"] == "SEVERE"]


def test_fingers_turn_and_zoom_on_a_phone(browser: Any, arm: LiveArm, served: ServedDashboard, tmp_path: Path) -> None:
    resize(browser, 390, 844)
    open_page(browser, served)
    switch(browser)
    checked(browser, (390, 844), "scene", tmp_path)
    use_dark_colours(browser)
    wait_until(lambda: light_grey(picture(browser, "390x844_dark", tmp_path)).mean() > 0.01)
    before = light_grey(picture(browser, "390x844_dark", tmp_path))
    box = browser.execute_script("return document.querySelector('.stage').getBoundingClientRect().toJSON()")
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2

    def touch(kind: str, *points: tuple[float, float]) -> None:
        touches = [{"x": x + right, "y": y + down, "id": number} for number, (right, down) in enumerate(points)]
        browser.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": kind, "touchPoints": touches})

    touch("touchStart", (-20, 0), (20, 0))
    for apart in range(25, 45, 5):
        touch("touchMove", (-apart, 0), (apart, 0))
    touch("touchEnd")
    wait_until(lambda: light_grey(picture(browser, "390x844_zoomed", tmp_path)).mean() > 1.5 * before.mean())
    zoomed = picture(browser, "390x844_zoomed", tmp_path)
    touch("touchStart", (0, 0))
    for right in range(0, 60, 20):
        touch("touchMove", (right, 0))
    touch("touchEnd")
    wait_until(lambda: np.abs(picture(browser, "390x844_turned", tmp_path).astype(int) - zoomed).mean() > 10)


def test_without_webgl_the_page_says_so_and_shows_pictures(browser: Any, arm: LiveArm, served: ServedDashboard) -> None:
    resize(browser, 1280, 800)
    with before_pages(browser, NO_WEBGL):
        open_page(browser, served)
        switch(browser)
        text = "WebGL 2 is not available in this browser. All else is still shown."
        wait_until(lambda: text in browser.find_element("css selector", "#scenes").text)
        assert not browser.find_element("css selector", ".stage").is_displayed()
        switch(browser)
        width = "return document.querySelector('#cameras img')?.naturalWidth"
        wait_until(lambda: browser.execute_script(width) == 64)
