"""The page that drives a robot, in Chromium: touch moves the simulated arm, letting go hands back."""

import dataclasses
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("websockets")

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from robo_rl.core import Intervention
from robo_rl.drivers.teleop import TeleopConfig, make_teleop
from robo_rl.sim import make_backend
from robo_rl.web import WebConfig
from robo_rl.web.person import TAKEN, PersonPage

from ..rigs.browser import (
    NOTICES_NO_SILENCE,
    before_pages,
    press_stop_on_a_dead_network,
    proxied,
    wait_until,
)

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

MOVING_FINGER = """
window.sockets = [];
window.touched = null;
addEventListener("pointerdown", (event) => (window.touched = event), true);
window.WebSocket = class extends WebSocket {
  constructor(address) {
    super(address);
    sockets.push(this);
    this.addEventListener("open", () => touched?.target.dispatchEvent(new PointerEvent("pointermove", touched)));
  }
};
"""
"""A finger that moves on whenever the page has connected, which a test ends."""

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


VIBRATIONS = "window.vibrations = []; navigator.vibrate = (pattern) => vibrations.push(pattern);"
"""Records the vibrations of the page."""

HIDDEN = """
Object.defineProperty(document, "hidden", {value: true, configurable: true});
document.dispatchEvent(new Event("visibilitychange"));
"""

KEYS = {"w": ("KeyW", "w"), "s": ("KeyS", "s"), "x": ("KeyX", "x"), "space": ("Space", " "), "enter": ("Enter", "Enter"),
        "command": ("MetaLeft", "Meta")}  # fmt: skip
"""Physical keys, and what they mean."""


class Driven:
    """The simulated arm, and a page that drives it."""

    def __init__(self, task: str = "reach") -> None:
        self.backend = make_backend(task)
        about = {"task": task, "elements": self.backend.spec.action.names}
        self.stops: list[int] = []
        config = WebConfig("127.0.0.1:0")
        self.page = PersonPage(config, about, lambda _: None, emergency_stop=lambda: self.stops.append(1) or "")
        # A machine that is busy with tests may hold up the page for longer than a person would accept.
        patient = dataclasses.replace(TeleopConfig().browser, timeout=20.0)
        self._teleop = make_teleop("browser", self.backend.spec, page=self.page, browser=patient)
        self.buttons: set[str] = set()

    def read(self) -> Intervention:
        reading = self._teleop.read()
        assert reading is not None
        self.buttons |= reading.buttons
        return reading

    def taken_over(self) -> NDArray[np.float32]:
        """Wait until the person has control; return the action."""
        reading: Intervention = wait_until(lambda: (reading := self.read()).in_control and reading)
        return reading.action

    def handed_back(self) -> None:
        """Wait until a page that is connected has handed back."""
        reading: Intervention = wait_until(
            lambda: not (reading := self.read()).in_control and not reading.message and reading
        )
        assert not reading.action[:3].any()

    def show(self) -> None:
        """Show what a panel does once per control period."""
        self._teleop.show(np.zeros((48, 64, 3), np.uint8), ["step 1"])

    def close(self) -> None:
        self._teleop.close()
        self.backend.close()


@pytest.fixture
def driven() -> Iterator[Driven]:
    driven = Driven()
    yield driven
    driven.close()


@pytest.fixture(scope="module")
def browser(browser: Any) -> Any:
    """A browser with the screen of a phone."""
    phone = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
    browser.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": True, "maxTouchPoints": 5})
    return browser


@contextmanager
def opened(browser: Any, driven: Driven, before: str) -> Iterator[None]:
    """Open the page, after the script ``before``."""
    with before_pages(browser, before):
        browser.get("about:blank")
        browser.get(driven.page.link)
        wait_until(lambda: browser.find_elements("css selector", "[data-pad=x-y]"))
        driven.handed_back()
        yield


def touch(browser: Any, kind: str, *point: float) -> None:
    points = [{"x": point[0], "y": point[1]}] if point else []
    browser.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})


def key(browser: Any, kind: str, name: str, **more: Any) -> None:
    """Press (``keyDown``) or release (``keyUp``) a key."""
    code, meaning = KEYS[name]
    browser.execute_cdp_cmd("Input.dispatchKeyEvent", {"type": kind, "code": code, "key": meaning, **more})


def grip_pose(browser: Any, driven: Driven) -> None:
    """Begin to drive by pose, with a trigger that is held."""
    wait_until(lambda: browser.find_elements("css selector", "#pose:enabled"))
    browser.find_element("css selector", "#pose").click()
    wait_until(lambda: browser.execute_script("return Boolean(session.onselectstart)"))
    browser.execute_script("session.onselectstart({inputSource: {gripSpace: 'grip'}})")
    driven.taken_over()


def upper_edge(browser: Any, pad: str) -> tuple[float, float]:
    """Return the middle of the upper edge of a pad [pixels of the page]."""
    box = browser.execute_script(f"return document.querySelector('[data-pad={pad}]').getBoundingClientRect().toJSON()")
    return box["left"] + box["width"] / 2, box["top"] + 4


def test_touch_drives_the_arm_and_a_wrong_token_does_not(browser: Any, driven: Driven) -> None:
    backend = driven.backend
    browser.get(driven.page.link.partition("#")[0] + "#wrong")
    wait_until(lambda: browser.find_element("css selector", "#ask").is_displayed())
    assert not driven.read().in_control

    browser.get("about:blank")
    browser.get(driven.page.link)
    wait_until(lambda: browser.find_elements("css selector", "[data-pad=x-y]"))
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 390
    driven.page.show(np.zeros((48, 64, 3), np.uint8), ["step 1"])
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


def test_keys_drive_while_they_are_held_and_press_the_buttons(browser: Any, driven: Driven) -> None:
    with opened(browser, driven, ""):
        key(browser, "keyDown", "w")
        assert driven.taken_over()[0] == 1.0
        key(browser, "keyDown", "s")
        wait_until(lambda: driven.taken_over()[0] == 0.0)
        key(browser, "keyUp", "w")
        wait_until(lambda: driven.taken_over()[0] == -1.0)
        key(browser, "keyUp", "s")
        driven.handed_back()
        key(browser, "keyDown", "enter")
        wait_until(lambda: driven.read() and driven.buttons)
        assert driven.buttons == {"success"}
        key(browser, "keyDown", "x")
        wait_until(lambda: driven.stops)
        assert browser.find_element("css selector", "[data-tap=success] kbd").text == "\u21b5"


@pytest.mark.parametrize(
    "end",
    [
        "dispatchEvent(new Event('blur'))",
        HIDDEN,
        "const pad = document.querySelector('.pad'); sockets.at(-1).close(); while (pad.isConnected) await new Promise(requestAnimationFrame)",
        None,
    ],
    ids=("left", "hidden", "lost", "command"),
)  # fmt: skip
def test_a_held_key_is_let_go_and_has_to_be_pressed_again(browser: Any, driven: Driven, end: str | None) -> None:
    """macOS sends no release of a key while the Command key is held."""
    with opened(browser, driven, MOVING_FINGER):
        key(browser, "keyDown", "w")
        driven.taken_over()
        if end is None:
            key(browser, "keyDown", "command", modifiers=4)
        else:
            browser.execute_async_script(f"(async () => {{ {end} }})().then(arguments[0])")
        driven.handed_back()
        for _ in range(5):
            key(browser, "keyDown", "w", autoRepeat=True)
        driven.handed_back()
        key(browser, "keyUp", "w")
        key(browser, "keyDown", "w")
        driven.taken_over()
        key(browser, "keyUp", "w")
        driven.handed_back()


def test_the_page_vibrates_and_shows_what_the_gripper_does(browser: Any) -> None:
    driven = Driven("pick_cube")
    try:
        with opened(browser, driven, VIBRATIONS):
            button = browser.find_element("css selector", "#gripper")
            driven.show()
            wait_until(lambda: "open" in button.text)
            key(browser, "keyDown", "space")
            wait_until(lambda: driven.read().action[-1] > 0)
            driven.show()
            wait_until(lambda: "closed" in button.text and button.get_attribute("aria-pressed") == "true")
            button.click()
            wait_until(lambda: driven.read().action[-1] < 0)
            taps = browser.execute_script("return vibrations.splice(0)")
            x, y = upper_edge(browser, "x-y")
            touch(browser, "touchStart", x, y + 20)
            pressed = browser.execute_script("return vibrations.splice(0)")
            touch(browser, "touchMove", x, y - 20)
            wait_until(lambda: browser.execute_script("return vibrations.length"))
            limit = browser.execute_script("return vibrations.splice(0)")
            touch(browser, "touchEnd")
            browser.find_element("css selector", "#emergency").click()
            stop = browser.execute_script("return vibrations")
            assert len(taps) == 2 and len(pressed) == 1 and len(limit) == 1 and limit > pressed
            assert stop == [[200, 100, 200]]
    finally:
        driven.close()


def test_the_page_shows_the_round_trip_and_the_rate_of_pictures_that_it_measures(browser: Any, driven: Driven) -> None:
    with proxied(driven.page._server) as proxy, opened(browser, driven, NOTICES_NO_SILENCE):
        latency, rate = (browser.find_element("css selector", name) for name in ("#latency", "#rate"))

        def displayed() -> tuple[str, str]:
            driven.show()
            return latency.text, rate.text

        wait_until(lambda: all(displayed()))
        assert latency.text.endswith(" ms") and int(latency.text.split()[0]) >= 0
        wait_until(lambda: int(displayed()[1].split()[0]) > 0 and rate.text.endswith(" fps"))
        proxy.swallow()
        wait_until(lambda: "waiting" in latency.get_attribute("class") and int(latency.text.split()[0]) > 1000)
        wait_until(lambda: rate.text == "0 fps" and "waiting" in rate.get_attribute("class"))
