"""The page that drives a robot, in Chromium, after a stop: who stopped it, why, when, and re-arming in two taps."""

import json
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("websockets")

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from robo_rl.core import EmergencyStop, OwnStop
from robo_rl.core.latch import Latch
from robo_rl.operators.rearming import find_stops_of
from robo_rl.operators.stop_button import StopButton
from robo_rl.web import WebConfig
from robo_rl.web.person import PersonPage

from ..rigs.browser import wait_until
from ..rigs.page_checks import FINGERTIP, checked, resize
from ..rigs.pages import ARM
from ..rigs.robot_rig import composed
from .test_web_drive import upper_edge

SIZES = [(375, 667), (844, 390)]
REASON = "safety guard: /joint_states has been silent for 0.52 s"


@pytest.fixture
def page() -> Iterator[PersonPage]:
    """The page of a training with ``robot=virtual``; what its device would press and show is left out."""
    config = composed()
    stop = EmergencyStop(robot="virtual")
    press = lambda: "" if stop.press("browser of the training") else "no disk"  # noqa: E731
    about = {"task": "pick_cube", "elements": ARM}
    latches = StopButton(partial(find_stops_of, config))
    page = PersonPage(WebConfig("127.0.0.1:0"), about, lambda _: None, emergency_stop=press, latches=latches)
    yield page
    page.close()


def opened(browser: Any, page: PersonPage, size: tuple[int, int]) -> None:
    browser.get("about:blank")
    resize(browser, *size)
    browser.get(page.link)
    wait_until(lambda: browser.find_elements("css selector", "[data-pad=x-y]"))
    page.show({"view": np.full((480, 640, 3), 120, np.uint8)}, ["step 1 of 200", "you are driving"])
    wait_until(lambda: browser.execute_script("return document.getElementById('camera').naturalWidth") == 640)


def read(browser: Any, selector: str) -> str:
    return str(browser.find_element("css selector", selector).text)


def tap(browser: Any, selector: str) -> int:
    """Tap a button that lies in view and is large enough; return 1, for one action."""
    button = browser.find_element("css selector", selector)
    box = browser.execute_script("return arguments[0].getBoundingClientRect().toJSON()", button)
    width, height = browser.execute_script("return [innerWidth, innerHeight]")
    assert min(box["width"], box["height"]) >= FINGERTIP, box
    assert box["left"] >= 0 and box["right"] <= width and box["top"] >= 0 and box["bottom"] <= height, box
    button.click()
    return 1


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_a_guards_stop_is_understood_and_released_in_two_taps(
    browser: Any, page: PersonPage, size: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = []
    monkeypatch.setattr(
        "robo_rl.drivers.robot.own_stop.rearm_robot", lambda **_: (not order.append("its controller"), "")
    )
    opened(browser, page, size)
    assert not browser.find_element("css selector", "#held").is_displayed()
    x, y = upper_edge(browser, "x-y")
    browser.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [{"x": x, "y": y}]})
    wait_until(lambda: "deadman" in page.poll(20.0)[1])
    stop, own = EmergencyStop(robot="virtual"), OwnStop("virtual")
    stop.press(REASON)
    own.note({"service": "/rearm", "name": "virtual"})
    wait_until(lambda: "its own controller" in read(browser, "#holds"))
    assert re.search(rf"robot virtual: {REASON} \(at [\d:]+\)", read(browser, "#holds"))
    assert "robo-rl rearm" in read(browser, "#held")
    box = browser.execute_script("return document.getElementById('held').getBoundingClientRect().toJSON()")
    assert box["left"] == 0 and box["right"] == size[0], "it takes the whole width"
    layout = checked(browser, size, "drive_stopped", tmp_path)
    assert layout["height"] <= size[1], "nothing needs to be scrolled to"
    assert not browser.find_element("css selector", ".pad").is_displayed()
    wait_until(lambda: "deadman" not in page.poll(20.0)[1])  # the touch counts no longer
    browser.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})

    actions = tap(browser, "#rearm")
    assert re.search(REASON, read(browser, "#confirm"))
    checked(browser, size, "drive_confirm", tmp_path)
    assert stop.pressed() == REASON, "the question has to be answered first"
    actions += tap(browser, "#clear")
    wait_until(lambda: stop.pressed() is None and own.facts() is None)
    wait_until(lambda: browser.find_element("css selector", ".pad").is_displayed())
    assert not browser.find_element("css selector", "#held").is_displayed()
    assert order == ["its controller"] and actions <= 3
    assert "deadman" not in page.poll(20.0)[1], "a new touch is required"


def test_ones_own_emergency_stop_is_released_and_one_that_comes_meanwhile_is_not(
    browser: Any, page: PersonPage
) -> None:
    opened(browser, page, SIZES[0])
    tap(browser, "#emergency")
    wait_until(lambda: "robot virtual: browser of the training" in read(browser, "#holds"))
    tap(browser, "#rearm")
    EmergencyStop().press("robo-rl stop")  # while the person reads the question
    wait_until(lambda: "all robots" in read(browser, "#holds"))
    tap(browser, "#clear")
    wait_until(lambda: EmergencyStop(robot="virtual").pressed() == "robo-rl stop")
    wait_until(lambda: "Still stopped: all robots: robo-rl stop" in read(browser, "#answer"))
    tap(browser, "#rearm")
    tap(browser, "#stay")
    time.sleep(0.5)
    assert EmergencyStop().pressed() == "robo-rl stop"
    tap(browser, "#rearm")
    tap(browser, "#clear")
    wait_until(lambda: EmergencyStop().pressed() is None)


def test_a_filters_stop_stays_to_be_read(browser: Any, page: PersonPage, tmp_path: Path) -> None:
    opened(browser, page, SIZES[0])
    page.show({}, ["stopped: contact_stop: the force at the wrist is 62 N, above 60", "step 40, 0 by a person"])
    wait_until(lambda: "62 N" in read(browser, "#lines"))
    page.show({}, ["the policy has control", "step 41, 0 by a person"])
    time.sleep(0.5)
    assert "62 N" in read(browser, "#lines")
    assert "bad" in browser.find_element("css selector", "#lines").get_attribute("class")
    checked(browser, SIZES[0], "drive_filter", tmp_path)
    wait_until(lambda: "step 41" in read(browser, "#lines"))


def test_only_the_page_that_drives_rearms_and_only_its_robot(page: PersonPage) -> None:
    address, _, token = page.link.partition("/#")
    stop, other = EmergencyStop(robot="virtual"), EmergencyStop(robot="other")
    stop.press("a person")
    other.press("a person")

    def connected(secret: str) -> Any:
        socket = connect(address.replace("http", "ws") + "/socket", origin=address)
        socket.send(json.dumps({"token": secret}))
        return socket

    def entries(socket: Any) -> list[dict[str, str]]:
        while "held" not in (message := json.loads(socket.recv(20))):
            pass
        held: list[dict[str, str]] = message["held"]
        return held

    with connected(token) as driving:
        (entry,) = seen = entries(driving)
        assert entry["what"] == "robot virtual"
        everything = [*seen, {"what": "robot other", "reason": entry["reason"]}]
        with connected("wrong") as stranger:
            with suppress(ConnectionClosed):  # the page may have closed the connection
                stranger.send(json.dumps({"command": "rearm", "seen": seen}))
            time.sleep(0.5)
        page._rearm(None, seen, drives=False)  # type: ignore[arg-type]
        time.sleep(0.5)
        assert stop.pressed() and other.pressed()
        driving.send(json.dumps({"command": "rearm", "seen": everything}))
        wait_until(lambda: stop.pressed() is None)
        assert entries(driving) == []
    assert other.pressed(), "of another robot"
    Latch(other.file).rearm()
