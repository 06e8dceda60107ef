"""The page that drives a robot, in Chromium: keys, gripper, figures, cameras and directions."""

from typing import Any

import numpy as np
import pytest

pytest.importorskip("websockets")

from ..rigs.browser import NOTICES_NO_SILENCE, proxied, wait_until
from ..rigs.driven_page import MOVING_FINGER, Driven, key, opened, touch, upper_edge

VIBRATIONS = "window.vibrations = []; navigator.vibrate = (pattern) => vibrations.push(pattern);"
"""Records the vibrations of the page."""

LOST = """
const pad = document.querySelector(".pad");
sockets.at(-1).close();
while (pad.isConnected) await new Promise(requestAnimationFrame);
"""

HIDDEN = """
Object.defineProperty(document, "hidden", {value: true, configurable: true});
document.dispatchEvent(new Event("visibilitychange"));
"""

pytestmark = pytest.mark.usefixtures("phone")


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
        LOST,
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
        proxy.mend()


class Pictured:
    """A page with a large camera, whose direction is known, and another one."""

    def __init__(self, browser: Any, driven: Driven) -> None:
        self._browser, self._driven = browser, driven
        self.view, self.wrist = (np.zeros((side, side, 3), np.uint8) for side in (64, 32))

    def show(self, *names: str) -> tuple[int, int]:
        """Show pictures of these cameras; return the widths of the large and the inset one on the page [pixels]."""
        self._driven.page.show({name: getattr(self, name) for name in names}, ["step 1"])
        script = "return ['camera', 'inset'].map((name) => document.getElementById(name).naturalWidth)"
        large, inset = self._browser.execute_script(script)
        return large, inset

    def press(self, name: str) -> None:
        self._browser.find_element("css selector", f"#{name}").click()


def test_the_inset_camera_becomes_the_large_one_but_not_with_old_pictures(browser: Any, driven: Driven) -> None:
    page = Pictured(browser, driven)
    with opened(browser, driven, ""):
        wait_until(lambda: page.show("view", "wrist") == (64, 32))
        page.press("swap")
        wait_until(lambda: page.show("view", "wrist") == (32, 64))
        page.press("swap")
        wait_until(lambda: page.show("view", "wrist") == (64, 32))
        page.press("swap")
        wait_until(lambda: page.show("view") == (64, 32))
        assert "old" in browser.find_element("css selector", "#swap").get_attribute("class")


def test_pads_follow_the_directions_of_the_picture_where_its_camera_is_known(browser: Any, driven: Driven) -> None:
    page = Pictured(browser, driven)
    driven.page.describe(headings={"view": np.pi / 2})
    with opened(browser, driven, ""):
        wait_until(lambda: page.show("view", "wrist") == (64, 32))
        frame = browser.find_element("css selector", "#frame")
        assert frame.text == "Directions: robot"
        key(browser, "keyDown", "w")
        np.testing.assert_allclose(driven.taken_over()[:2], [1, 0], atol=1e-6)
        page.press("frame")
        driven.handed_back()
        assert frame.text == "Directions: picture"
        assert browser.find_element("css selector", "[data-pad=x-y]").text.startswith("\u25b2\naway")
        key(browser, "keyUp", "w")
        key(browser, "keyDown", "w")
        np.testing.assert_allclose(driven.taken_over()[:2], [0, 1], atol=1e-6)
        page.press("swap")
        driven.handed_back()
        assert frame.text == "Directions: robot" and not frame.is_enabled()
        key(browser, "keyUp", "w")
        touch(browser, "touchStart", *upper_edge(browser, "x-y"))
        assert driven.taken_over()[0] > 0.9
        touch(browser, "touchEnd")
        driven.handed_back()
