"""The page that drives the simulated arm in Chromium, with fingers and keys."""

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import Intervention
from robo_rl.drivers.teleop import TeleopConfig, make_teleop
from robo_rl.sim import make_backend
from robo_rl.web import WebConfig
from robo_rl.web.person import PersonPage

from .browser import before_pages, wait_until

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

KEYS = {
    **{letter: (f"Key{letter.upper()}", letter) for letter in "wsx"},
    **{"space": ("Space", " "), "enter": ("Enter", "Enter"), "command": ("MetaLeft", "Meta")},
}
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


def upper_edge(browser: Any, pad: str) -> tuple[float, float]:
    """Return the middle of the upper edge of a pad [pixels of the page]."""
    box = browser.execute_script(f"return document.querySelector('[data-pad={pad}]').getBoundingClientRect().toJSON()")
    return box["left"] + box["width"] / 2, box["top"] + 4


def make_phone(browser: Any) -> None:
    """Give the browser the screen of a phone."""
    phone = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
    browser.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": True, "maxTouchPoints": 5})
