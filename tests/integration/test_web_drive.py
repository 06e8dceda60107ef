"""The page that drives a robot, in Chromium: touch moves the simulated arm, letting go hands back."""

import json
import time
from typing import Any
from urllib.parse import unquote

import numpy as np
import pytest

pytest.importorskip("websockets")

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from robo_rl.web.person import TAKEN

from ..rigs.browser import NOTICES_NO_SILENCE, press_stop_on_a_dead_network, proxied, wait_until
from ..rigs.driven_page import MOVING_FINGER, Driven, opened, touch, upper_edge

FAKE_WEBXR = """
window.pose = {position: {x: 0, y: 1, z: 0}, orientation: {x: 0, y: 0, z: 0, w: 1}};
window.XRWebGLLayer = class {};
window.session = {
  visibilityState: "visible",
  updateRenderState() {},
  requestReferenceSpace: async () => "local",
  requestAnimationFrame: (frame) => requestAnimationFrame((time) => window.frozen || frame(time, {
    getPose: () => window.pose && {transform: structuredClone(window.pose)},
  })),
};
Object.defineProperty(navigator, "xr", {value: {
  isSessionSupported: async (mode) => mode === "immersive-vr",
  requestSession: async () => window.session,
}});
"""
"""A headset whose controller a test moves, and which a test stops from making frames."""

TAPPED_WHILE_LOST = """
window.told = [];
sockets.at(-1).addEventListener("close", () => {
  for (const name of ["success", "emergency_stop"]) {
    document.querySelector(`[data-tap=${name}]`).click();
    told.push(document.getElementById("lines").textContent, document.getElementById("unconfirmed").hidden);
  }
});
sockets.at(-1).close();
"""
"""Two buttons that are tapped when the connection is gone."""

TURNED = """
const done = arguments[0], position = {x: 0, y: 0, z: 0};
const start = {position, orientation: {x: 0, y: 0, z: 0, w: 1}};
const now = {position, orientation: {x: 0, y: Math.sin(0.15), z: 0, w: Math.cos(0.15)}};
import("/pose.js").then(({deflections}) => done(deflections(start, now)));
"""
"""What a turn of 0.3 rad to the left comes to."""

pytestmark = pytest.mark.usefixtures("phone")


def grip_pose(browser: Any, driven: Driven) -> None:
    """Begin to drive by pose, with a trigger that is held."""
    wait_until(lambda: browser.find_elements("css selector", "#pose:enabled"))
    browser.find_element("css selector", "#pose").click()
    wait_until(lambda: browser.execute_script("return Boolean(session.onselectstart)"))
    browser.execute_script("session.onselectstart({inputSource: {gripSpace: 'grip'}})")
    driven.taken_over()


def test_touch_drives_the_arm_and_a_wrong_token_does_not(browser: Any, driven: Driven) -> None:
    backend = driven.backend
    browser.get(driven.page.link.partition("#")[0] + "#wrong")
    wait_until(lambda: browser.find_element("css selector", "#ask").is_displayed())
    assert not driven.read().in_control

    browser.get("about:blank")
    browser.get(driven.page.link)
    wait_until(lambda: browser.find_elements("css selector", "[data-pad=x-y]"))
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 390
    driven.page.show({"view": np.zeros((48, 64, 3), np.uint8)}, ["step 1"])
    wait_until(lambda: browser.execute_script("return document.getElementById('camera').naturalWidth") == 64)
    driven.handed_back()

    backend.reset(0)
    pose = [backend.spec.observation["state"].names.index(f"end_effector_{axis}") for axis in "xyz"]
    before = backend.step(np.zeros(backend.spec.action.shape, np.float32)).observation["state"][pose]
    touch(browser, "touchStart", *upper_edge(browser, "x-y"))
    after = before
    for _ in range(3):
        after = backend.step(driven.taken_over()).observation["state"][pose]
    assert after[0] - before[0] > 0.005, "the upper edge is forward"
    assert abs(after[1] - before[1]) < 0.005
    touch(browser, "touchEnd")
    driven.handed_back()

    browser.find_element("css selector", "[data-tap=success]").click()
    wait_until(lambda: driven.read() and driven.buttons)
    assert driven.buttons == {"success"}


def test_a_touch_of_before_the_connection_was_lost_drives_no_more(browser: Any, driven: Driven) -> None:
    with opened(browser, driven, MOVING_FINGER):
        point = upper_edge(browser, "x-y")
        touch(browser, "touchStart", *point)
        driven.taken_over()
        browser.execute_script("window.before = document.querySelector('.pad'); sockets.at(-1).close()")
        wait_until(lambda: browser.execute_script("return !before.isConnected"))
        touch(browser, "touchEnd")
        driven.handed_back()
        touch(browser, "touchStart", *point)
        driven.taken_over()
        touch(browser, "touchEnd")
        driven.handed_back()


def test_of_what_is_tapped_without_a_connection_the_emergency_stop_alone_is_sent(browser: Any, driven: Driven) -> None:
    with opened(browser, driven, MOVING_FINGER):
        browser.execute_script(TAPPED_WHILE_LOST)
        wait_until(lambda: driven.read() and driven.buttons)
        driven.handed_back()
        assert driven.buttons == {"emergency_stop"}
        not_sent = "Not sent: there is no connection"
        assert browser.execute_script("return told") == [not_sent, True, not_sent, False]
        wait_until(lambda: not browser.find_element("css selector", "#unconfirmed").is_displayed())


def test_an_emergency_stop_comes_through_though_its_connection_died_unnoticed(browser: Any, driven: Driven) -> None:
    with proxied(driven.page._server) as proxy, opened(browser, driven, NOTICES_NO_SILENCE):
        press_stop_on_a_dead_network(browser, proxy, lambda: driven.stops)
        wait_until(lambda: driven.read() and driven.buttons == {"emergency_stop"})
        assert len(driven.stops) == 1, "once it is confirmed it is not said again"


def test_the_pose_of_a_controller_drives_while_it_is_gripped_and_seen(browser: Any, driven: Driven) -> None:
    with opened(browser, driven, FAKE_WEBXR):
        grip_pose(browser, driven)
        # Half of a full deflection forward (towards the screen), beyond the dead zone.
        browser.execute_script("pose.position.z = -0.06")
        wait_until(lambda: driven.taken_over()[0] > 0)
        np.testing.assert_allclose(driven.taken_over()[:3], [(0.5 - 0.1) / 0.9, 0, 0], atol=1e-6)
        browser.execute_script("window.pose = null")
        driven.handed_back()
        browser.execute_script("session.onselectend()")
        driven.handed_back()
        turned = browser.execute_async_script(TURNED)
        assert turned["yaw"] == pytest.approx(0.5) and turned["roll"] == turned["pitch"] == 0


@pytest.mark.parametrize(
    "end",
    [
        "session.visibilityState = 'hidden'; session.onvisibilitychange()",
        "session.visibilityState = 'visible-blurred'; session.onvisibilitychange()",
        "dispatchEvent(new Event('blur'))",
        "window.frozen = true",
    ],
    ids=("hidden", "menu", "left", "frozen"),
)
def test_the_pose_is_let_go_when_the_headset_is_hidden_left_or_frozen(browser: Any, driven: Driven, end: str) -> None:
    with opened(browser, driven, FAKE_WEBXR):
        grip_pose(browser, driven)
        browser.execute_script(end)
        driven.handed_back()
        browser.execute_script("session.visibilityState = 'visible'; session.onvisibilitychange()")
        driven.handed_back()


def test_a_page_that_another_took_over_from_waits_to_be_touched(browser: Any, driven: Driven) -> None:
    address, _, token = driven.page.link.partition("/#")
    socket = f"ws{address.removeprefix('http')}/socket"
    with opened(browser, driven, ""), connect(socket, origin=address, proxy=None) as other:
        other.send(json.dumps({"token": unquote(token)}))
        other.recv(60)
        chip = "return document.querySelector('#connection').textContent"
        wait_until(lambda: "another page drives" in browser.execute_script(chip))
        deadline = time.monotonic() + 3  # longer than a page that was lost waits before it comes again
        while time.monotonic() < deadline:
            other.recv(60)  # the other is told all the while that it is connected
        browser.find_element("css selector", "header").click()
        wait_until(lambda: browser.execute_script(chip) == "connected")
        with pytest.raises(ConnectionClosed) as closed:
            while True:
                other.recv(60)
    assert closed.value.rcvd is not None and closed.value.rcvd.code == TAKEN
